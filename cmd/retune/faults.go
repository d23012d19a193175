package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// The fault benchmark loses one of four equal backends in five ways and gets it back, under open load, with every
// algorithm in a proxy of its own. All of it is real: processes, sockets, signals.

// faultTimes is the timeline of one fault.
type faultTimes struct {
	calm  time.Duration // before it, which tells the backend's usual share
	hold  time.Duration // how long it lasts
	after time.Duration // since its end, at most: watching ends sooner when every proxy has shared out as before
}

var usualFaultTimes = faultTimes{calm: 3 * time.Second, hold: 12 * time.Second, after: 25 * time.Second}

// faultRate is the open load of each proxy in requests a second, every fifth of them a POST: those can't be tried
// again once they are on their way.
const (
	faultRate = 60
	postEvery = 5
)

// mostLate is how late a request may begin. If more than one in a hundred is later, the machine itself is the fault.
const mostLate = 100 * time.Millisecond

// faultRow is what the clients of one proxy saw of one fault.
type faultRow struct {
	Fault     string  `json:"fault"`
	Algorithm string  `json:"algorithm"`
	Requests  int     `json:"requests"` // due while the fault lasted
	Late      int     `json:"late"`     // of them, begun over 0.1 s after they were due: the machine was too busy to measure
	Failed    int     `json:"failed"`   // of them, as the client sees it
	Posts     int     `json:"failed_posts"`
	Share     float64 `json:"failed_share"`
	Delayed   int     `json:"delayed"`      // answered well, after more than a second
	WorstMS   float64 `json:"worst_ms"`     // the longest wait of any of them
	LastSeenS float64 `json:"last_seen_s"`  // since the fault's beginning, when the last failure reached a client; 0: none did
	BackS     float64 `json:"fair_again_s"` // since its end, until the backend had four fifths of its share again; -1: not in time
}

func (c *benchCmd) faults(ctx context.Context, o *output) error {
	if c.Reference || len(c.Scenario)+len(c.Rules) > 0 {
		return usage("--faults brings its own load and rules: of what to measure it takes --algorithm alone")
	}
	algorithms, err := pickAlgorithms(c.Algorithm)
	if err != nil {
		return err
	}
	if c.LogLevel == slog.LevelInfo {
		c.LogLevel = slog.LevelError
	}
	bed, err := newFaultBed(ctx, "", algorithms, c.logFlags, o.err)
	if err != nil {
		return err
	}
	defer bed.stop()
	var rows []faultRow
	for i, f := range faults() {
		fmt.Fprintf(o.err, "%s (%d of %d)\n", f.name, i+1, len(faults()))
		r, err := bed.measure(ctx, f, usualFaultTimes)
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		rows = append(rows, r...)
	}
	return c.showFaults(o, rows)
}

func (c *benchCmd) showFaults(o *output, rows []faultRow) error {
	var cells [][]string
	for _, r := range rows {
		seen, back := "never", fmt.Sprintf("%.1f", r.BackS)
		if r.LastSeenS > 0 {
			seen = fmt.Sprintf("%.1f", r.LastSeenS)
		}
		if r.BackS < 0 {
			back = fmt.Sprintf("over %.0f", usualFaultTimes.after.Seconds())
		}
		doubt := ""
		if 100*r.Late > r.Requests {
			doubt = fmt.Sprintf("%d requests began late: the machine was too busy", r.Late)
		}
		cells = append(cells, []string{r.Fault, r.Algorithm, fmt.Sprint(r.Requests), fmt.Sprint(r.Failed), fmt.Sprint(r.Posts),
			fmt.Sprintf("%.1f%%", 100*r.Share), fmt.Sprint(r.Delayed), fmt.Sprintf("%.0f", r.WorstMS), seen, back, doubt})
	}
	head := []string{"fault", "algorithm", "requests", "failed", "POSTs", "share", "over 1 s", "worst ms", "last seen s", "fair again s", "no evidence because"}
	return c.print(o, rows, head, cells, head[2:10]...)
}

// figures sums up what the clients of one proxy saw. began and ended are the fault's.
func figures(all []faultAnswer, began, ended time.Time) (r faultRow) {
	for _, a := range all {
		if a.due.Before(began) || !a.due.Before(ended) {
			continue
		}
		r.Requests++
		if a.begun.Sub(a.due) > mostLate {
			r.Late++
		}
		took := a.end.Sub(a.due)
		r.WorstMS = max(r.WorstMS, float64(took)/float64(time.Millisecond))
		switch {
		case !a.ok:
			r.Failed++
			if a.post {
				r.Posts++
			}
			r.LastSeenS = max(r.LastSeenS, a.end.Sub(began).Seconds())
		case took > time.Second:
			r.Delayed++
		}
	}
	r.Share = float64(r.Failed) / float64(max(r.Requests, 1))
	r.BackS = fairAgain(all, began, ended)
	return r
}

// A backend has its share again from the first stretch of fairStretch on in which it served at least fairPart of the
// share that it had before the fault.
const (
	fairStretch = 2 * time.Second
	fairPart    = 0.8
)

// fairAgain is when that was, in seconds since the fault's end; -1 if it was not.
func fairAgain(all []faultAnswer, began, ended time.Time) float64 {
	usual := victimsShare(all, time.Time{}, began)
	if len(all) == 0 || usual == 0 {
		return -1
	}
	last := slices.MaxFunc(all, func(a, b faultAnswer) int { return a.due.Compare(b.due) }).due
	for at := ended; !at.Add(fairStretch).After(last); at = at.Add(100 * time.Millisecond) {
		if victimsShare(all, at, at.Add(fairStretch)) >= fairPart*usual {
			return at.Sub(ended).Seconds()
		}
	}
	return -1
}

// victimsShare is the part of the requests due between two instants that the victim answered.
func victimsShare(all []faultAnswer, from, to time.Time) float64 {
	his, sum := 0, 0
	for _, a := range all {
		if a.due.Before(from) || !a.due.Before(to) {
			continue
		}
		sum++
		if a.backend == victimName {
			his++
		}
	}
	return float64(his) / float64(max(sum, 1))
}
