package web

import (
	"context"
	"net/http"
	"time"

	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// replaySpan is how far back the proxy's own snapshots are replayed.
const replaySpan = time.Hour

// lintView is what can be said against a rule set before any load.
type lintView struct {
	Remarks []rules.Remark  `json:"remarks"`
	Replay  steering.Report `json:"replay" doc:"over what was recorded; without windows nothing was"`
	Over    string          `json:"over" doc:"what was replayed"`
	Same    bool            `json:"same_as_active,omitempty" doc:"the active version does the same: applying it changes nothing"`
}

// lint looks at a rule set by what its file says and by a replay over the proxy's last hour. A proxy that can't be asked leaves
// the file.
func (s *Server) lint(ctx context.Context, set rules.RuleSet) (lintView, error) {
	v := lintView{Over: "nothing: the proxy has recorded no snapshot in the last hour"}
	series, err := s.recorded(ctx)
	switch {
	case err != nil:
		v.Over = "nothing: " + err.Error()
	case len(series) > 0:
		v.Over = "the snapshots of the proxy's last hour"
	}
	v.Remarks, v.Replay = steering.Lint(set, series)
	active, err := s.active(ctx)
	if err != nil || active == 0 {
		return v, err
	}
	now, err := s.History.Version(ctx, active)
	v.Same = err == nil && rules.Same(now.Rules, set)
	return v, err
}

func (s *Server) recorded(ctx context.Context) ([]traffic.Snapshot, error) {
	if s.Snapshots == nil {
		return nil, nil
	}
	return s.Snapshots(ctx, time.Now().Add(-replaySpan))
}

// lintVersion is what was found of a version before its trial, where a cycle proposed it. Of any other it is what its file says:
// what is recorded now is no measure of what was meant then.
func (s *Server) lintVersion(ctx context.Context, ver ruleversions.Version) (v lintView, err error) {
	if ver.CycleID != 0 {
		proposals, err := s.History.Proposals(ctx, ver.CycleID)
		if err != nil {
			return v, err
		}
		for _, p := range proposals {
			if p.Version == ver.Number {
				return lintView{Remarks: p.Remarks, Replay: p.Replay, Over: "what its cycle recorded"}, nil
			}
		}
	}
	v.Remarks, v.Replay = steering.Lint(ver.Rules, nil)
	return v, nil
}

// lintCalls look at a rule file and store nothing.
func (s *Server) lintCalls() {
	type file struct {
		YAML string `json:"yaml" maxLength:"65536" doc:"the rule file's text"`
	}
	call(s, "POST", "/lint", "Look for what can't work in a rule file, by a replay too; stores nothing", http.StatusOK, func(ctx context.Context, in *body[file]) (*body[lintView], error) {
		set, err := parseRules(in.Body.YAML)
		if err != nil {
			return nil, err
		}
		v, err := s.lint(ctx, set)
		if v.Remarks == nil {
			v.Remarks = []rules.Remark{}
		}
		return answer(v, err)
	})
}
