package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/proxy/rules"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// archive is the versions' API with two versions; a reason of the second has a figure that is not in its evidence.
func archive(t *testing.T) string {
	t.Helper()
	set := rules.Default()
	set.Version = 1
	v1 := ruleversions.Version{Number: 1, Rules: set, YAML: string(rules.Render(set))}
	v2 := v1
	v2.Number, v2.Parent, v2.Rules = 2, 1, rules.Default()
	v2.Rules.Detection.SpikeRate = 0.8
	v2.Reasons = []ruleversions.Reason{
		{Path: "rules.SPIKE", Text: "p95 884 ms in burst", Unsupported: []string{"884 ms"}},
		{Path: "detection.spike_rate", Text: "a rate of 0.87", Unsupported: []string{"0.87"}},
	}
	v2.Rules.Rules[traffic.Spike] = rules.Rule{Algorithm: "RANDOM", Reason: v2.Reasons[0].Marked()}
	answer := map[string]any{
		"/api/v1/versions":          map[string]any{"items": []ruleversions.Version{v2, v1}},
		"/api/v1/versions/2":        v2,
		"/api/v1/versions/1/diff/2": ruleversions.Compare(v1, v2),
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(answer[r.URL.Path])
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestRulesShowUnsupportedFiguresWhereverTheyShowReasons(t *testing.T) {
	server := archive(t)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"rules", "list"}, []string{"unsupported", " 2 │"}},
		{[]string{"rules", "list", "-o", "csv"}, []string{",2,"}},
		{[]string{"rules", "show", "2"}, []string{"p95 884 ms in burst (unsupported: 884 ms)", "a rate of 0.87 (unsupported: 0.87)"}},
		{[]string{"rules", "show", "2", "-o", "json"}, []string{`"unsupported"`}},
		{[]string{"rules", "diff", "1", "2"}, []string{"p95 884 ms in burst (unsupported: 884 ms)", "a rate of 0.87 (unsupported: 0.87)"}},
	} {
		var out, stderr bytes.Buffer
		require.NoError(t, run(t.Context(), append(c.args, "--server", server), &out, &stderr), stderr.String())
		for _, want := range c.want {
			require.Contains(t, out.String(), want, c.args)
		}
	}
}
