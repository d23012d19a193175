package postgres_test

import (
	"context"
	"math"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/detection"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/postgres/managed"
	"retune/orchestrator/postgres/pgtest"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

func now() time.Time { return time.Now().UTC().Round(time.Microsecond) }

func run(cycle int64) orchestrator.Run {
	return orchestrator.Run{
		CycleID: cycle, Scenario: "burst", HoldOut: true, Arm: orchestrator.ArmCandidate, Pair: 2, Version: 1, Algorithm: balance.Random, Seed: math.MaxUint64 - 1,
		Result: loadtest.Result{
			Scenario: "burst", Driver: loadtest.K6, DriverVersion: "k6 v1.2.3", Started: now(), Duration: 42500 * time.Millisecond,
			Planned: 4000, Requests: 3990, Failed: 12, Dropped: 3, RPS: 93.6, ErrorRate: 0.003,
			AvgMS: 48.123456789, P50MS: 40, P90MS: 80.5, P95MS: 101.7, P99MS: 190, MaxMS: 1200.25,
			Series: []loadtest.Second{
				{Requests: 93, Failed: 1, AvgMS: 48.12, P50MS: 40.01, P95MS: 101.7, P99MS: 190.25},
				{}, // a second without samples
				{Requests: 16_000_000, Dropped: 3, AvgMS: 0.001, P50MS: 0.0005, P95MS: 12345.67, P99MS: 60000},
			},
			Marks:     []loadtest.Mark{{At: 10 * time.Second, Action: loadtest.ActionFail, Detail: "server-1"}},
			Status:    map[string]int64{"200": 3978, "503": 10, "1212": 2},
			Histogram: []byte{0x1c, 0x84, 0x93, 0x14, 0x00, 0xff},
			ExitCode:  99, DriverCPU: 0.41, Log: []string{"warning: \x00 and \xff"}, Invalid: []string{"dropped 3.1% of the iterations"},
		},
	}
}

func TestARunComesBackWithItsSeries(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	want := run(c.ID)
	id, err := s.SaveRun(t.Context(), want)
	require.NoError(t, err)
	got, err := s.Run(t.Context(), id)
	require.NoError(t, err)
	want.ID = id
	want.Result.Log = []string{"warning: \uFFFD and \uFFFD"} // as far as Postgres can store it
	require.Empty(t, cmp.Diff(want, got))

	list, err := s.Runs(t.Context(), c.ID)
	require.NoError(t, err)
	require.Len(t, list, 1)
	want.Result.Series, want.Result.Histogram = nil, nil
	require.Empty(t, cmp.Diff(want, list[0]))
	_, err = s.Run(t.Context(), 99)
	require.ErrorIs(t, err, orchestrator.ErrNotFound)
}

func TestARunThatIsSetAsideIsNoEvidence(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	want := run(c.ID)
	want.Result.Invalid = nil
	id, err := s.SaveRun(t.Context(), want)
	require.NoError(t, err)
	require.NoError(t, s.SetAside(t.Context(), id, "its other half was none"))
	require.NoError(t, s.SetAside(t.Context(), id, "twice"))
	got, err := s.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, []string{"its other half was none", "twice"}, got.Result.Invalid)
	require.ErrorIs(t, s.SetAside(t.Context(), 99, "none"), orchestrator.ErrNotFound)
}

func TestALongSeriesComesBackWhole(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	want := run(c.ID)
	want.Result.Series = make([]loadtest.Second, 3600)
	for i := range want.Result.Series {
		want.Result.Series[i] = loadtest.Second{Requests: int64(i), P95MS: float64(i) / 8}
	}
	id, err := s.SaveRun(t.Context(), want)
	require.NoError(t, err)
	got, err := s.Run(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want.Result.Series, got.Result.Series))
}

func decision(seq uint64) steering.Decision {
	rate := 1.52
	return steering.Decision{
		Seq: seq, BootID: "boot-1", At: now().Add(time.Duration(seq) * time.Second), State: traffic.Spike, PreviousState: traffic.HighStable,
		Algorithm: balance.LeastConnections, PreviousAlgorithm: balance.RoundRobin, Switched: true, Confidence: 0.93, Reason: "SPIKE: rps 41.0 → 103.4",
		Gates: []steering.Gate{{Name: "cooldown", Passed: true, Detail: "ok"}}, RulesVersion: 1, Cause: steering.CauseWindow,
		Snapshot: traffic.Snapshot{Seq: seq, RPS: 103.4, RPSChangeRate: &rate, Backends: []traffic.BackendSnapshot{{ID: "server-1", Healthy: true}}},
	}
}

func TestReadingTheJournalAgainStoresNothingTwice(t *testing.T) {
	s, conn, _ := seeded(t)
	c := running(t, s)
	id, err := s.SaveRun(t.Context(), run(c.ID))
	require.NoError(t, err)
	decisions := []steering.Decision{decision(1), decision(2)}
	snapshots := []traffic.Snapshot{{Seq: 1, At: now(), RPS: 41, State: traffic.HighStable}, {Seq: 2, At: now().Add(time.Second), FromZero: true}}

	require.NoError(t, s.SaveJournal(t.Context(), 0, 0, decisions[:1], snapshots[:1]), "read in passing")
	for range 2 {
		require.NoError(t, s.SaveJournal(t.Context(), c.ID, id, decisions, snapshots))
	}
	require.NoError(t, s.SaveJournal(t.Context(), 0, 0, decisions, snapshots), "a later one that knows less takes nothing away")

	gotD, err := s.Decisions(t.Context(), c.ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(decisions, gotD))
	gotS, err := s.Snapshots(t.Context(), c.ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(snapshots, gotS))
	var runs int
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT count(*) FROM decision JOIN snapshot USING (run_id) WHERE run_id = $1", id).Scan(&runs))
	require.Equal(t, 4, runs)

	other := decision(1) // another proxy, or the same after a restart
	other.BootID = "boot-2"
	require.NoError(t, s.SaveJournal(t.Context(), c.ID, id, []steering.Decision{other}, nil))
	gotD, err = s.Decisions(t.Context(), c.ID)
	require.NoError(t, err)
	require.Len(t, gotD, 3)
}

func TestAJournalIsStoredWholeOrNotAtAll(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	broken := decision(2)
	broken.RulesVersion = math.MaxInt64
	require.Error(t, s.SaveJournal(t.Context(), c.ID, 0, []steering.Decision{decision(1), broken}, nil))
	list, err := s.Decisions(t.Context(), c.ID)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestModelCallsComeBack(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	cost := 0.0123
	calls := []advisor.Call{
		{Provider: "openai", Model: "gpt-4o", Temperature: 0.3, PromptSHA: "ab", Request: `{"a":1}`, Response: "not json", Outcome: advisor.CallInvalidJSON, Error: "line 1", PromptTokens: 900, CompletionTokens: 12, Latency: time.Second, At: now()},
		{Provider: "openai", Model: "gpt-4o", Request: `{"a":2}`, Response: `{"rules":{}}`, Outcome: advisor.CallOK, CostUSD: &cost, At: now()},
	}
	require.NoError(t, s.SaveCalls(t.Context(), c.ID, 1, calls))
	got, err := s.Calls(t.Context(), c.ID)
	require.NoError(t, err)
	for i := range got {
		require.Positive(t, got[i].ID)
		got[i].ID = 0
	}
	require.Empty(t, cmp.Diff(calls, got))
}

// A server that dies under us: the pool and the session come back, history is whole, and the cycle that ran is over.
func TestTheStoreSurvivesItsServersDeath(t *testing.T) {
	pgtest.DSN(t) // skips where there is no Postgres
	dir, err := os.MkdirTemp("", "retune-store-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755)) // as root another account runs the server
	t.Cleanup(func() { os.RemoveAll(dir) })
	server, err := managed.Start(t.Context(), managed.Config{DataDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	go func() { _ = server.Keep(t.Context(), func(string) {}) }()

	s := listening(t, server.DSN())
	_, err = s.Seed(t.Context(), rules.Default(), 0)
	require.NoError(t, err)
	c, _ := onTrial(t, s)
	require.NoError(t, s.SaveLive(t.Context(), orchestrator.Live{CycleID: c.ID}))
	lost := s.Lost()
	require.NoError(t, syscall.Kill(server.Pid(), syscall.SIGKILL))
	<-lost
	require.Eventually(t, func() bool {
		ended, err := s.Reclaim(t.Context(), clean)
		return err == nil && len(ended) == 1
	}, patience, 20*time.Millisecond)
	p, err := s.Pointer(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{1, 1, int64(0)}, []any{p.Accepted, p.Desired, p.Trial}, "the champion is in force")
	list, err := s.Versions(t.Context(), 10, 0)
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = s.Enqueue(t.Context(), request())
	require.NoError(t, err)
	require.Eventually(t, func() bool { // a new session takes new cycles
		_, ok, err := s.Claim(t.Context())
		return ok && err == nil
	}, patience, 20*time.Millisecond)
}

func TestADetectionComesBackWithItsRun(t *testing.T) {
	s, _, _ := seeded(t)
	c := running(t, s)
	first, err := s.SaveRun(t.Context(), run(c.ID))
	require.NoError(t, err)
	second := run(c.ID)
	second.Arm, second.Pair = orchestrator.ArmBaseline, 0
	id, err := s.SaveRun(t.Context(), second)
	require.NoError(t, err)
	late := 1.25
	report := detection.Report{
		Scenario: "burst", HoldOut: true, WindowS: 2,
		Windows: []detection.Window{{AtS: 1.5, Truth: traffic.LowTraffic, Named: traffic.HighStable}, {AtS: 3.5, Named: traffic.Spike}},
		Delays:  []detection.Delay{{State: traffic.Spike, FromS: 2, ToS: 8, Windows: &late}, {State: traffic.HighStable, FromS: 8, ToS: 13}},
	}
	require.NoError(t, s.SaveDetection(t.Context(), id, report))
	labelled := report.Labelled("gpt-4o", []traffic.State{traffic.LowTraffic})
	require.NoError(t, s.SaveDetection(t.Context(), id, labelled), "labels come later")
	require.NoError(t, s.SaveDetection(t.Context(), first, report))

	got, err := s.Detections(t.Context(), c.ID)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]orchestrator.RunDetection{
		{Run: first, Arm: orchestrator.ArmCandidate, Version: 1, Report: report},
		{Run: id, Arm: orchestrator.ArmBaseline, Version: 1, Report: labelled},
	}, got))
	require.Error(t, s.SaveDetection(t.Context(), 99, report), "of no run")
	none, err := s.Detections(t.Context(), 99)
	require.NoError(t, err)
	require.Empty(t, none)
}
