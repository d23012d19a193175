package verdict

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// With is the limits with those that are given as text in place of its own; an empty text leaves one as it is. p95 and
// RPS are shares, written as 10% or 0.10; errorRate is percentage points, written as 1, 1pp or 1%. A number that could
// mean either (10 for p95, 0.02 for errors) is refused, as is everything that Check refuses. The error names each
// fault and how to write it.
func (l Limits) With(p95, rps, errorRate string) (Limits, error) {
	var faults []error
	for _, f := range []struct {
		name, text string
		parse      func(string) (float64, error)
		into       *float64
	}{
		{"p95", p95, parseShare, &l.P95Increase},
		{"rps", rps, parseShare, &l.RPSDecrease},
		{"errors", errorRate, parsePoints, &l.ErrorIncrease},
	} {
		text := strings.TrimSpace(f.text)
		if text == "" {
			continue
		}
		v, err := f.parse(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("limit %s %q: %w", f.name, f.text, err))
			continue
		}
		*f.into = v
	}
	if len(faults) > 0 {
		return l, errors.Join(faults...)
	}
	return l, l.Check()
}

// plain is a number as people write it: no sign, no exponent, no other script's digits.
var plain = regexp.MustCompile(`^[0-9]{1,6}(\.[0-9]{1,9})?$`)

// number reads text, of which what was cut off already is the unit.
func number(text, want string) (float64, error) {
	text = strings.TrimSpace(text)
	if !plain.MatchString(text) {
		return 0, errors.New("write " + want)
	}
	return strconv.ParseFloat(text, 64)
}

// parseShare reads 10% or 0.10.
func parseShare(text string) (float64, error) {
	const want = "a share above 0, such as 10% or 0.10"
	digits, percent := strings.CutSuffix(text, "%")
	v, err := number(digits, want)
	switch {
	case err != nil:
		return 0, err
	case percent:
		return v / 100, nil
	case v >= 1:
		return 0, fmt.Errorf("it could mean %[1]s%% or %[1]s times: write %[1]s%%", digits)
	}
	return v, nil
}

// pointUnits are the words for percentage points, the longest first.
var pointUnits = []string{"points", "point", "pts", "pp", "pt", "%"}

// leastPoints is below which a number without a unit is rather a share: 0.02 is more often 2 points than 0.02.
const leastPoints = 0.1

// parsePoints reads 1, 1pp or 1%.
func parsePoints(text string) (float64, error) {
	const want = "percentage points above 0, such as 1 or 0.5pp"
	digits, unit := text, false
	for _, u := range pointUnits {
		if digits, unit = strings.CutSuffix(text, u); unit {
			break
		}
	}
	v, err := number(digits, want)
	switch {
	case err != nil:
		return 0, err
	case !unit && v > 0 && v < leastPoints:
		return 0, fmt.Errorf("it could mean %[1]s percentage points or a share of %[1]s: write %[1]spp or %[2]spp", digits, short(100*v))
	}
	return v / 100, nil
}

// Text is the limits as With reads them: 15%, 15% and 2pp.
func (l Limits) Text() (p95, rps, errorRate string) {
	return short(100*l.P95Increase) + "%", short(100*l.RPSDecrease) + "%", short(100*l.ErrorIncrease) + "pp"
}

// String reads like "p95 +15%, RPS −15%, errors +2 points".
func (l Limits) String() string {
	points := short(100*l.ErrorIncrease) + " points"
	if points == "1 points" {
		points = "1 point"
	}
	return fmt.Sprintf("p95 +%s%%, RPS −%s%%, errors +%s", short(100*l.P95Increase), short(100*l.RPSDecrease), points)
}

// short writes a number without the digits that are float64's alone.
func short(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e7)/1e7, 'f', -1, 64)
}
