package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// What is read of a script and its imports at most.
const (
	maxScript  = 4 << 20 // bytes of one file
	maxScripts = 200     // files
)

// imports finds what a script imports or opens. A comment that looks like an import is taken for one: a false alarm
// costs a reworded comment, a miss would fetch code from elsewhere.
var imports = regexp.MustCompile("(?:\\bfrom|\\bimport|\\brequire|\\bopen)\\s*\\(?\\s*[\"'`]([^\"'`]+)[\"'`]")

// checkScript refuses a script of the user's own that would have k6 fetch anything: code or files from a URL, or an
// extension (k6/x/…). It follows local imports.
func checkScript(path string) error {
	seen := map[string]bool{}
	var f faults
	var check func(path string)
	check = func(path string) {
		if seen[path] || len(seen) >= maxScripts {
			return
		}
		seen[path] = true
		source, err := readScript(path)
		if err != nil {
			f = append(f, err)
			return
		}
		for _, m := range imports.FindAllStringSubmatch(source, -1) {
			local, err := resolveImport(path, m[1])
			if err != nil {
				f = append(f, fmt.Errorf("%s: %w", path, err))
			} else if strings.HasSuffix(local, ".js") || strings.HasSuffix(local, ".ts") || strings.HasSuffix(local, ".mjs") {
				check(local)
			}
		}
	}
	check(path)
	f.unless(len(seen) < maxScripts, "%s: imports %d files or more", path, maxScripts)
	return errors.Join(f...)
}

// readScript reads a script of bearable size.
func readScript(path string) (string, error) {
	info, err := os.Stat(path)
	if err == nil && info.Size() > maxScript {
		err = fmt.Errorf("%s: larger than %d bytes", path, maxScript)
	}
	if err != nil {
		return "", fmt.Errorf("reading a script: %w", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading a script: %w", err)
	}
	return string(b), nil
}

// resolveImport is the file that an import names; "" for a module of k6's own.
func resolveImport(from, name string) (string, error) {
	switch {
	case name == "k6/x" || strings.HasPrefix(name, "k6/x/"):
		return "", fmt.Errorf("imports the extension %q; k6 would fetch a program for it", name)
	case name == "k6" || strings.HasPrefix(name, "k6/"):
		return "", nil
	case strings.HasPrefix(name, "file://"):
		return strings.TrimPrefix(name, "file://"), nil
	case strings.Contains(name, "://"):
		return "", fmt.Errorf("fetches %q; copy it beside the script and import that", name)
	case filepath.IsAbs(name):
		return name, nil
	}
	return filepath.Join(filepath.Dir(from), name), nil
}

// inspected is what k6 inspect tells of a script.
type inspected struct {
	Scenarios map[string]struct {
		Executor  string     `json:"executor"`
		Rate      float64    `json:"rate"`
		StartRate float64    `json:"startRate"`
		TimeUnit  k6Duration `json:"timeUnit"`
		Duration  k6Duration `json:"duration"`
		StartTime k6Duration `json:"startTime"`
		Stages    []k6Stage  `json:"stages"`
	} `json:"scenarios"`
}

type k6Stage struct {
	Target   float64    `json:"target"`
	Duration k6Duration `json:"duration"`
}

// k6Duration is a duration as k6 prints it; null is 0.
type k6Duration time.Duration

func (d *k6Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = k6Duration(v)
	return err
}

// adoptPlan makes sure that k6 sees a scenario called main, and takes a script's plan over where its user gave no
// shape: only an open load has one.
func adoptPlan(s *Scenario, inspect []byte) error {
	var seen inspected
	if err := json.Unmarshal(inspect, &seen); err != nil {
		return fmt.Errorf("reading what k6 inspect says of %s: %w", s.Shape.Name, err)
	}
	main, ok := seen.Scenarios["main"]
	if !ok {
		return fmt.Errorf("the script of %s has no scenario called main; that is the one that is measured", s.Shape.Name)
	}
	if len(s.Shape.Phases) > 0 || s.Shape.Closed != nil {
		return nil
	}
	unit := time.Duration(main.TimeUnit).Seconds()
	if unit == 0 {
		unit = 1
	}
	s.Warm = time.Duration(main.StartTime)
	switch main.Executor {
	case "constant-arrival-rate":
		s.Shape.Phases = []Phase{{Name: "main", Duration: Duration(main.Duration), From: main.Rate / unit, To: main.Rate / unit}}
	case "ramping-arrival-rate":
		rate := main.StartRate / unit
		for i, st := range main.Stages {
			if st.Duration > 0 {
				s.Shape.Phases = append(s.Shape.Phases, Phase{Name: fmt.Sprintf("stage %d", i+1), Duration: Duration(st.Duration), From: rate, To: st.Target / unit})
			}
			rate = st.Target / unit
		}
	}
	if planned := s.Shape.Planned(); planned < 0 || math.IsNaN(s.Shape.Peak()) {
		return fmt.Errorf("the script of %s plans %d requests", s.Shape.Name, planned)
	}
	return nil
}
