package orchestrator_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/balance"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// heldOut is a bench that has the held-out scenario too, where each run leaves traces that are known again.
func heldOut(t *testing.T, g orchestrator.Advisor) *bench {
	t.Helper()
	b := newBench(g)
	shape, err := loadtest.Load("sawtooth")
	require.NoError(t, err)
	require.True(t, shape.HoldOut)
	b.tuner.Site.Scenarios = append(b.tuner.Site.Scenarios, loadtest.Scenario{Shape: shape})
	b.tuner.Site.Controls = map[string]string{"server-1": "http://control"}
	traces := &traces{load: b.load}
	b.tuner.Journal = traces
	b.load.during = func(_ int, s loadtest.Scenario) { traces.scenario = s.Shape.Name }
	return b
}

// traces is a Journal that recorded, in each run, a switch and windows of figures that are the scenario's own.
type traces struct {
	load     *load
	scenario string
}

func (j *traces) figure() float64 {
	return map[string]float64{"steady": 313, "burst": 323, "sawtooth": 717}[j.scenario]
}

func (j *traces) Snapshots(_ context.Context, since time.Time) (all []traffic.Snapshot, _ error) {
	for i := range 8 {
		f := j.figure()
		all = append(all, traffic.Snapshot{Seq: uint64(i + 1), At: since.Add(time.Duration(i+1) * 5 * time.Second), Window: 5 * time.Second, RPS: f, AvgLatencyMS: f, P95MS: f * float64(1+i%2),
			State: traffic.HighStable, Algorithm: string(balance.RoundRobin)})
	}
	return all, nil
}

func (j *traces) Decisions(_ context.Context, since time.Time) ([]steering.Decision, error) {
	at := func(i int) time.Time { return since.Add(time.Duration(i) * 5 * time.Second) }
	return []steering.Decision{{Seq: 1, At: at(3), State: traffic.Spike, Switched: true, Algorithm: balance.LeastConnections, PreviousAlgorithm: balance.RoundRobin,
		Cause: steering.CauseWindow, Confidence: 0.9, Snapshot: traffic.Snapshot{At: at(3), Window: 5 * time.Second, RPS: j.figure(), P95MS: j.figure()}}}, nil
}

// tells gives each scenario's runs its own figures; the candidate is worse in what is held out alone.
func tells(run int, s loadtest.Scenario, version int, r *loadtest.Result) {
	p95 := map[string]float64{"steady": 313, "burst": 323, "sawtooth": 717}[s.Shape.Name]
	if s.Shape.Name == "sawtooth" && version == 2 {
		p95 *= 3
	}
	if p95 > 0 {
		r.RPS, r.P95MS, r.AvgMS, r.P99MS = p95, p95, p95, p95
		r.P95MS *= 1 + 0.01*float64(run%3)
	}
	r.Started, r.Duration = time.Now(), 40*time.Second
}

func TestRulesThatAreTunedToTheSuiteAreFoundOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		b := heldOut(t, proposes{algorithm: balance.ExpectedCompletion})
		b.load.tell = tells
		c := request()
		c.Force = true // however it would have switched in the windows that were made up
		c, err := b.tuner.Run(t.Context(), c)
		require.NoError(t, err)
		require.Equal(t, orchestrator.RolledBack, c.Status, c.Why)
		require.Contains(t, c.Why, "sawtooth")
		championIsBack(t, b)
		require.True(t, slices.ContainsFunc(c.Verdict.Findings, func(f verdict.Finding) bool {
			return f.Scenario == "sawtooth" && f.HoldOut && f.Outcome == verdict.RolledBack
		}))
		for _, f := range c.Verdict.Findings {
			require.Equal(t, f.Scenario == "sawtooth", f.HoldOut)
		}
		for _, r := range b.ledger.runs {
			require.Equal(t, r.Scenario == "sawtooth", r.HoldOut)
			require.False(t, r.HoldOut && r.Arm == orchestrator.ArmScreen)
		}
		require.Equal(t, "rolled back: by a scenario that is held out", c.Verdict.Told())
	})
}

// revealing are words and figures of what is held out, in three digits, as a prompt has them; not digits within another figure.
var revealing = regexp.MustCompile(`tooth|(^|[^0-9.])(71[78]|724|731|143[04]|215[01])`)

func TestNoGeneratorLearnsOfWhatIsHeldOut(t *testing.T) {
	var asked []string
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = append(asked, string(b))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"no rules at all"}}]}`)
	}))
	defer model.Close()
	g, err := advisor.New("openai", advisor.Config{OpenAI: advisor.OpenAI{BaseURL: model.URL + "/v1", Key: "k"}})
	require.NoError(t, err)

	b := heldOut(t, proposes{algorithm: balance.ExpectedCompletion})
	b.load.tell = tells
	before := request()
	before.Force = true
	before, err = b.tuner.Run(t.Context(), before) // rolled back by what is held out
	require.NoError(t, err)
	require.Equal(t, orchestrator.RolledBack, before.Status)
	b.ledger.attempts = append(b.ledger.attempts, attempt(2, before.Verdict.Told()))

	for _, name := range []string{"local", "openai"} {
		if name == "openai" {
			b.tuner.Generators[name] = g
		} else {
			b.tuner.Generators[name], err = advisor.New(name, advisor.Config{})
			require.NoError(t, err)
		}
		c := request()
		c.Generator = name
		c, err := b.tuner.Run(t.Context(), c)
		require.NoError(t, err)
		require.NotEmpty(t, c.Evidence)
		require.Contains(t, c.Scenarios, "sawtooth")
		text := string(c.Evidence)
		if name == "openai" {
			require.GreaterOrEqual(t, len(asked), 6, "for labels and for rules, each the question and two repairs at least")
			text += strings.Join(asked, "\n")
		}
		for _, shown := range []string{"steady", "burst", "313", "323", "held out"} {
			require.Contains(t, text, shown)
		}
		require.Empty(t, revealing.FindString(text), name)
	}
}

func TestWhatIsHeldOutIsPartOfAllButQuickCycles(t *testing.T) {
	site := orchestrator.Site{Controls: map[string]string{"server-1": "x", "server-2": "x"}}
	for _, s := range loadtest.Shapes() {
		site.Scenarios = append(site.Scenarios, loadtest.Scenario{Shape: s})
	}
	for p, want := range map[loadtest.Profile][]string{
		loadtest.Quick:    {"steady", "burst", "gradual", "failure"},
		loadtest.Standard: {"steady", "burst", "gradual", "failure", "sawtooth"},
		loadtest.Nightly:  {"steady", "burst", "gradual", "failure", "sawtooth"},
	} {
		var names []string
		for _, s := range site.For(p) {
			names = append(names, s.Shape.Name)
		}
		require.Equal(t, want, names, p)
	}
	require.NoError(t, site.Check(orchestrator.Request{Profile: loadtest.Quick, Scenarios: []string{"sawtooth"}}), "a quick cycle runs it where it is named")
}
