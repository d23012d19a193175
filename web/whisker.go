package web

import (
	"math"
	"strconv"

	"retune/orchestrator/verdict"
)

// whiskerView is a confidence interval as coordinates of a picture 120 wide.
type whiskerView struct {
	Zero, Limit, Low, High, Effect string
	Tone                           string
}

// newWhisker scales a finding so that its limit stands well inside; what is further out ends at the edge.
func newWhisker(f verdict.Finding) whiskerView {
	const width, margin = 120.0, 4.0
	half := 1.6 * math.Abs(f.Limit)
	x := func(v float64) string {
		if half == 0 || math.IsNaN(v) {
			v = 0
		} else {
			v = max(-1, min(1, v/half))
		}
		return strconv.FormatFloat(width/2+v*(width/2-margin), 'f', 1, 64)
	}
	return whiskerView{x(0), x(f.Limit), x(f.Low), x(f.High), x(f.Effect), tone(string(f.Outcome))}
}
