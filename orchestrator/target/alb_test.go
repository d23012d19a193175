package target_test

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator/target"
	"retune/proxy"
	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/ruleversions"
)

// running is a real proxy with its rule file.
type running struct {
	admin, file string
	stop        func()
}

func start(t *testing.T, token string) running {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(backend.Close)
	u, err := url.Parse(backend.URL)
	require.NoError(t, err)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	back, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "decision-rules.yml")
	p, err := proxy.New(proxy.Config{TrafficListener: front, AdminListener: back, Rules: file, AdminToken: token,
		Backends: []proxy.BackendConfig{{ID: "a", URL: u, Weight: 1}}, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	r := running{admin: "http://" + back.Addr().String(), file: file, stop: sync.OnceFunc(func() { cancel(); <-done })}
	t.Cleanup(r.stop)
	return r
}

// version is a rule set with one algorithm for SPIKE, as the archive would store it.
func version(number int, a balance.Algorithm) ruleversions.Version {
	rs := rules.Default()
	rs.Version = number
	rs.Rules["SPIKE"] = rules.Rule{Algorithm: a, Reason: "a test"}
	yaml := rules.Render(rs)
	return ruleversions.Version{Number: number, Rules: rs, YAML: string(yaml), Hash: rules.Sum(yaml)}
}

func of(t *testing.T, token string, proxies ...running) *target.ALB {
	t.Helper()
	var admins []string
	for _, p := range proxies {
		admins = append(admins, p.admin+"/")
	}
	a, err := target.New(admins, token)
	require.NoError(t, err)
	return a
}

func TestEveryProxyRunsWhatWasApplied(t *testing.T) {
	one, two := start(t, ""), start(t, "")
	a := of(t, "", one, two)
	v := version(2, balance.Random)
	require.NoError(t, a.Apply(t.Context(), v, 7, false))
	now, err := a.Serving(t.Context())
	require.NoError(t, err)
	require.Equal(t, v.Hash, now.Hash)
	require.Equal(t, int64(7), now.Generation)
	for _, p := range []running{one, two} {
		file, err := os.ReadFile(p.file)
		require.NoError(t, err)
		require.Equal(t, v.YAML, string(file))
	}
	again := now
	require.NoError(t, a.Apply(t.Context(), v, 7, false))
	now, err = a.Serving(t.Context())
	require.NoError(t, err)
	require.Equal(t, again, now, "applying the same again changes nothing")
}

func TestATrialLeavesTheFileAlone(t *testing.T) {
	p := start(t, "")
	a := of(t, "", p)
	champion, candidate := version(1, balance.Random), version(2, balance.RoundRobin)
	require.NoError(t, a.Apply(t.Context(), champion, 1, false))
	require.NoError(t, a.Apply(t.Context(), candidate, 2, true))
	now, err := a.Serving(t.Context())
	require.NoError(t, err)
	require.Equal(t, candidate.Hash, now.Hash)
	require.True(t, now.Trial)
	file, err := os.ReadFile(p.file)
	require.NoError(t, err)
	require.Equal(t, champion.YAML, string(file))

	require.NoError(t, a.Apply(t.Context(), candidate, 3, false), "kept")
	file, err = os.ReadFile(p.file)
	require.NoError(t, err)
	require.Equal(t, candidate.YAML, string(file))
}

func TestAnOldGenerationIsRefusedAndByHandIsNot(t *testing.T) {
	a := of(t, "", start(t, ""))
	require.NoError(t, a.Apply(t.Context(), version(2, balance.Random), 9, false))
	var refused *target.Refused
	require.ErrorAs(t, a.Apply(t.Context(), version(3, balance.RoundRobin), 8, false), &refused)
	require.Equal(t, http.StatusConflict, refused.Status)
	require.NoError(t, a.Apply(t.Context(), version(1, balance.IPHash), 0, false), "the champion, while the ledger is out of reach")
	require.NoError(t, a.Apply(t.Context(), version(2, balance.Random), 9, false), "a proxy changed behind our back is put right")
}

// One proxy that is down keeps none of the others from going back to the champion.
func TestADeadProxyDoesNotHoldTheOthersBack(t *testing.T) {
	dead, alive := start(t, ""), start(t, "")
	dead.stop()
	a := of(t, "", dead, alive)
	v := version(2, balance.Random)
	require.ErrorIs(t, a.Apply(t.Context(), v, 3, false), target.ErrUnreachable)
	now, err := of(t, "", alive).Serving(t.Context())
	require.NoError(t, err)
	require.Equal(t, v.Hash, now.Hash)
}

// An archive that is new does not take rules on trial for its first version.
func TestFileRulesAreNotThoseOnTrial(t *testing.T) {
	a := of(t, "", start(t, ""))
	champion := version(1, balance.Random)
	require.NoError(t, a.Apply(t.Context(), champion, 47, false))
	require.NoError(t, a.Apply(t.Context(), version(2, balance.IPHash), 48, true))
	yaml, highest, err := a.FileRules(t.Context())
	require.NoError(t, err)
	require.Equal(t, champion.YAML, string(yaml))
	require.Equal(t, int64(48), highest)
}

func TestProxiesThatDifferAreAnError(t *testing.T) {
	one, two := start(t, ""), start(t, "")
	require.NoError(t, of(t, "", one).Apply(t.Context(), version(2, balance.Random), 1, false))
	_, err := of(t, "", one, two).Serving(t.Context())
	require.ErrorContains(t, err, "differ")
}

func TestAProxyThatIsDownIsUnreachable(t *testing.T) {
	p := start(t, "")
	p.stop()
	a := of(t, "", p)
	_, err := a.Serving(t.Context())
	require.ErrorIs(t, err, target.ErrUnreachable)
	require.ErrorIs(t, a.Apply(t.Context(), version(2, balance.Random), 1, false), target.ErrUnreachable)
}

func TestAWrongTokenSaysWhichVariableToSet(t *testing.T) {
	p := start(t, "right")
	_, err := of(t, "wrong", p).Serving(t.Context())
	require.ErrorContains(t, err, "RETUNE_ADMIN_TOKEN")
	require.NotContains(t, err.Error(), "wrong")
	_, err = of(t, "right", p).Serving(t.Context())
	require.NoError(t, err)
}

func TestInvalidRulesAreRefusedAndTheOldOnesStay(t *testing.T) {
	a := of(t, "", start(t, ""))
	before, err := a.Serving(t.Context())
	require.NoError(t, err)
	v := version(2, "MAGIC")
	require.ErrorContains(t, a.Apply(t.Context(), v, 1, false), "not valid")
	now, err := a.Serving(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, now)
}

func TestDecisionsSinceAnInstant(t *testing.T) {
	a := of(t, "", start(t, ""))
	require.NoError(t, a.SetMode(t.Context(), steering.Mode{Mode: "fixed", Algorithm: balance.Random}))
	between := time.Now()
	require.NoError(t, a.SetMode(t.Context(), steering.Mode{Mode: "fixed", Algorithm: balance.IPHash}))
	all, err := a.Decisions(t.Context(), between)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, balance.IPHash, all[0].Algorithm)
	snapshots, err := a.Snapshots(t.Context(), between)
	require.NoError(t, err)
	require.Empty(t, snapshots)
	require.Error(t, a.SetMode(t.Context(), steering.Mode{Mode: "fixed", Algorithm: "MAGIC"}))
}

// An orchestrator that was replaced, and does not know it, changes nothing any more.
func TestWhoWasReplacedIsRefused(t *testing.T) {
	p := start(t, "")
	old, heir := of(t, "", p), of(t, "", p)
	require.NoError(t, old.Apply(t.Context(), version(2, balance.Random), 5, true))
	require.NoError(t, old.SetMode(t.Context(), steering.Mode{Mode: "adaptive", TimeScale: 0.5}))
	require.NoError(t, heir.Apply(t.Context(), version(1, balance.IPHash), 6, false))
	require.NoError(t, heir.SetMode(t.Context(), steering.Mode{Mode: "adaptive", TimeScale: 1}))
	var refused *target.Refused
	require.ErrorAs(t, old.SetMode(t.Context(), steering.Mode{Mode: "adaptive", TimeScale: 0.2}), &refused)
	require.Equal(t, http.StatusConflict, refused.Status)
	require.ErrorAs(t, old.Apply(t.Context(), version(2, balance.Random), 5, true), &refused)
	require.Equal(t, http.StatusConflict, refused.Status)
	s, err := heir.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{1, 1.0}, []any{s.Rules.Version, s.Mode.TimeScale})
}

// By hand nothing is put over what somebody else changed in between.
func TestByHandNobodysChangeIsUndone(t *testing.T) {
	p := start(t, "")
	heir := of(t, "", p)
	require.NoError(t, heir.Apply(t.Context(), version(3, balance.IPHash), 3, true))
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", strings.TrimPrefix(p.admin, "http://")
		if r.In.Method == http.MethodPost { // after it has asked what is in force
			require.NoError(t, heir.Apply(t.Context(), version(4, balance.Random), 4, true))
		}
	}}
	between := httptest.NewServer(through)
	t.Cleanup(between.Close)
	a, err := target.New([]string{between.URL}, "")
	require.NoError(t, err)
	var refused *target.Refused
	require.ErrorAs(t, a.Apply(t.Context(), version(1, balance.RoundRobin), 0, true), &refused)
	require.Equal(t, http.StatusPreconditionFailed, refused.Status)
	now, err := heir.Serving(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, now.Version)
}

func TestAddressesAreChecked(t *testing.T) {
	for _, admins := range [][]string{nil, {"127.0.0.1:9901"}, {"ftp://127.0.0.1"}} {
		_, err := target.New(admins, "")
		require.Error(t, err, "%v", admins)
	}
}
