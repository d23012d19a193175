package steering

import (
	"fmt"
	"strings"
)

// explain is a window's decision in words, e.g.: SPIKE: rps 41.0 → 103.4, rate +1.52 (threshold 1.00), confidence
// 0.93. LEAST_CONNECTIONS by rule v9: "p95 35% lower than ROUND_ROBIN in burst". Gates: cooldown ok, 2/2 windows,
// 1/3 switches this minute.
func (g *Governor) explain(d Decision, figures string, first bool) string {
	seen := fmt.Sprintf("%s: %s, confidence %.2f.", d.State, figures, d.Confidence)
	switch {
	case first:
		return fmt.Sprintf("%s %s Gates: first window, adopted without hysteresis.", seen, g.because())
	case allPassed(d.Gates):
		return fmt.Sprintf("%s %s Gates: %s, %s, %s.", seen, g.because(),
			d.Gates[cooldown].Detail, d.Gates[sustained].Detail, d.Gates[switchRate].Detail)
	case !d.Gates[sameState].Passed:
		return fmt.Sprintf("%s %s stays.", seen, d.Algorithm)
	}
	var shut []string
	for _, x := range d.Gates {
		if !x.Passed {
			shut = append(shut, strings.ReplaceAll(x.Name, "_", " ")+" ("+x.Detail+")")
		}
	}
	return fmt.Sprintf("%s %s stays, held by: %s.", seen, d.Algorithm, strings.Join(shut, ", "))
}

// because names what is in force, and why.
func (g *Governor) because() string {
	if g.fixed != "" {
		return fmt.Sprintf("%s by fixed mode.", g.fixed)
	}
	return fmt.Sprintf("%s by rule v%d: %q.", g.algorithm, g.rules.Version, g.rules.Rules[g.state].Reason)
}

// explainReload is a reload in words.
func (g *Governor) explainReload(d Decision, old int) string {
	what := "stays in force"
	if d.Switched {
		what = fmt.Sprintf("%s → %s", d.PreviousAlgorithm, d.Algorithm)
	}
	return fmt.Sprintf("Rules v%d → v%d reloaded, %s is mapped anew: %s. %s", old, g.rules.Version, g.state, what, g.because())
}

// explainMode is a change of mode in words.
func (g *Governor) explainMode(d Decision) string {
	text := "Mode adaptive. "
	if g.fixed != "" {
		text = "Mode fixed. "
	}
	if g.scale != 1 {
		text += fmt.Sprintf("Window and cooldown × %.2f. ", g.scale)
	}
	if d.Cause == CauseReset {
		text += "Windows, counts and cooldown start anew. "
	}
	return text + g.because()
}
