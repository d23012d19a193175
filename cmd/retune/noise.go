package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"time"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/proxy/steering"
)

// noiseItem is what the API says of the noise under one profile and driver.
type noiseItem struct {
	orchestrator.KnownNoise
	Stale []string `json:"stale,omitempty"`
	Says  string   `json:"says"`
}

// noise shows what is known of this machine's noise, has the orchestrator measure it anew, and shows what it learned.
func (c *doctorCmd) noise(ctx context.Context, o *output) error {
	api, err := c.client()
	if err != nil {
		return err
	}
	known, err := knownNoise(ctx, api)
	if err != nil {
		return err
	}
	fmt.Fprintln(o.err, noiseState(known, loadtest.Profile(c.Profile)))
	done, err := follow(ctx, o, api, orchestrator.Request{Kind: orchestrator.Calibrate, Trigger: "cli", Profile: loadtest.Profile(c.Profile), Driver: loadtest.Auto})
	if err != nil {
		return err
	}
	if done.Status != orchestrator.Finished {
		return fmt.Errorf("cycle %d: %s: %s", done.ID, done.Status, done.Why)
	}
	if known, err = knownNoise(ctx, api); err != nil {
		return err
	}
	return c.printNoise(o, known, time.Now())
}

func knownNoise(ctx context.Context, api *apiClient) ([]noiseItem, error) {
	var page struct {
		Items []noiseItem `json:"items"`
	}
	err := api.call(ctx, http.MethodGet, "/noise", nil, &page)
	return page.Items, err
}

// noiseState is what is known under one profile, with each driver, in sentences.
func noiseState(known []noiseItem, p loadtest.Profile) string {
	var says []string
	for _, k := range known {
		if k.Profile == p {
			says = append(says, fmt.Sprintf("Driver %s: %s", k.Driver, k.Says))
		}
	}
	if len(says) == 0 {
		return fmt.Sprintf("The noise of this machine under %s is not known yet. Measuring it.", p)
	}
	return strings.Join(says, "\n") + "\nMeasuring it anew."
}

func (c *doctorCmd) printNoise(o *output, known []noiseItem, now time.Time) error {
	var rows [][]string
	for _, k := range known {
		state := "fresh"
		if len(k.Stale) > 0 {
			state = "stale"
		}
		for _, n := range k.Known {
			rows = append(rows, []string{string(k.Profile), string(k.Driver), n.Scenario, string(n.Metric), fmt.Sprintf("%.2f%%", 100*n.SD), fmt.Sprint(n.Pairs),
				orchestrator.Age(now.Sub(k.Updated)), state})
		}
	}
	return c.print(o, known, []string{"profile", "driver", "scenario", "metric", "standard deviation", "pairs", "age", "state"}, rows, "standard deviation", "pairs", "age")
}

// noiseKnown is the doctor's check of what is known of the noise. Not knowing it is a drawback, not a fault.
func noiseKnown(ctx context.Context, api *apiClient) checkup {
	var page struct {
		Items []orchestrator.Outlook `json:"items"`
	}
	if err := api.call(ctx, http.MethodGet, "/outlooks", nil, &page); err != nil {
		return checkup{"noise", true, "not known: " + err.Error()}
	}
	var states []string
	for _, o := range page.Items {
		state := "fresh"
		switch {
		case o.Hardest == nil:
			state = "not known"
		case len(o.Stale) > 0:
			state = "stale: " + strings.Join(o.Stale, "; ")
		}
		if o.Hardest != nil && !o.Decides() {
			state += ", and too loud to decide"
		}
		states = append(states, fmt.Sprintf("%s: %s", o.Profile, state))
	}
	return checkup{"noise", true, strings.Join(states, ". ") + ". `retune doctor --noise --profile …` measures it"}
}

// noiseFoot is what stands below a verdict's table: the noise that it rests on. Empty when it can't be told.
func noiseFoot(ctx context.Context, api *apiClient, done orchestrator.Cycle) string {
	if done.Verdict == nil || len(done.Verdict.Findings) == 0 {
		return ""
	}
	var then noiseItem
	if api.call(ctx, http.MethodGet, cyclePath(done.ID)+"/noise", nil, &then) != nil {
		return ""
	}
	return then.Says
}

// setup says what figures that are measured now depend on. What can't be asked is left out.
func (s *serving) setup(drivers *driverMemory) func(context.Context, loadtest.Driver) orchestrator.Setup {
	return func(ctx context.Context, d loadtest.Driver) orchestrator.Setup {
		now := orchestrator.Setup{Machine: fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))}
		if r, _, err := drivers.find(d); err == nil {
			now.Driver = r.(*loadtest.Runner).Version
		}
		ctx, stop := context.WithTimeout(ctx, 2*time.Second)
		defer stop()
		if st, err := s.target.Status(ctx); err == nil {
			now.Proxy, now.Backends = st.Build, backendWords(st.Backends)
		}
		return now
	}
}

// backendWords names the backends in an order of their own, each with its weight; health and load come and go.
func backendWords(list []steering.BackendStatus) string {
	all := make([]string, len(list))
	for i, b := range list {
		address := b.URL
		if u, err := url.Parse(b.URL); err == nil {
			address = u.Host // no password that somebody has put into it
		}
		all[i] = fmt.Sprintf("%s=%s×%d", b.ID, address, b.Weight)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
