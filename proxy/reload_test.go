package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// ruleText is the default rules with another version and another algorithm for quiet traffic.
func ruleText(version int, low balance.Algorithm) string {
	rs := rules.Default()
	rs.Version, rs.Parent = version, version-1
	r := rs.Rules[traffic.LowTraffic]
	r.Algorithm = low
	rs.Rules[traffic.LowTraffic] = r
	return string(rules.Render(rs))
}

func (r *running) file() string {
	r.t.Helper()
	b, err := os.ReadFile(r.config.Rules)
	require.NoError(r.t, err)
	return string(b)
}

func TestReloadStoresSwapsAndAnswers(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	text := ruleText(2, balance.LeastConnections)
	var a rules.Active
	p.must(200, &a, "POST", "/alb/rules/reload", text)
	require.Equal(t, 2, a.Version)
	require.Equal(t, rules.Sum([]byte(text)), a.Hash)
	require.False(t, a.Trial)
	require.Equal(t, p.boot, a.BootID)
	require.Equal(t, text, p.file())
	require.Equal(t, balance.LeastConnections, p.pool.route.Load().algorithm, "a new rule for the state that holds acts at once")
	res, got := p.call("GET", "/alb/rules", "")
	require.Equal(t, text, got)
	require.Equal(t, `"`+string(a.Hash)+`"`, res.Header.Get("ETag"))
	res, _ = p.call("GET", "/alb/rules", "", "If-None-Match: "+res.Header.Get("ETag"))
	require.Equal(t, http.StatusNotModified, res.StatusCode)
	left, err := filepath.Glob(p.config.Rules + ".*")
	require.NoError(t, err)
	require.Empty(t, left, "no temporary file stays")
	var d page[steering.Decision]
	p.must(200, &d, "GET", "/alb/decisions", "")
	require.Equal(t, steering.CauseReload, d.Items[len(d.Items)-1].Cause)
}

// What somebody wrote by hand, comments and all, is not lost when rules come over the API.
func TestAFileWrittenByHandIsKept(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	for _, own := range []string{"# mine\n" + ruleText(3, balance.Random), "not: rules\n", "# " + strings.Repeat("x", rules.MaxSize) + "\n"} {
		require.NoError(t, os.WriteFile(p.config.Rules, []byte(own), 0o644))
		next := ruleText(4, balance.LeastConnections)
		p.must(200, nil, "POST", "/alb/rules/reload", next)
		require.Equal(t, next, p.file())
		kept, err := os.ReadFile(p.config.Rules + ".orig")
		require.NoError(t, err)
		require.Equal(t, own, string(kept))
	}
	p.must(200, nil, "POST", "/alb/rules/reload", ruleText(5, balance.Random))
	kept, err := os.ReadFile(p.config.Rules + ".orig")
	require.NoError(t, err)
	require.Greater(t, len(kept), rules.MaxSize, "what came over the API is kept by whoever sent it")
}

// Rules are read from the disk, not from the binary: a changed file acts after an empty reload.
func TestAnEmptyReloadReadsTheFile(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	require.NoError(t, os.WriteFile(p.config.Rules, []byte(ruleText(7, balance.Random)), 0o644))
	var a rules.Active
	p.must(200, &a, "POST", "/alb/rules/reload", "")
	require.Equal(t, 7, a.Version)
	require.Equal(t, balance.Random, p.pool.route.Load().algorithm)
	for name, spoil := range map[string]func() error{
		"invalid": func() error { return os.WriteFile(p.config.Rules, []byte("version: x\n"), 0o644) },
		"missing": func() error { return os.Remove(p.config.Rules) },
	} {
		require.NoError(t, spoil())
		status := map[string]int{"invalid": 422, "missing": 500}[name]
		p.wantProblem(status, "POST", "/alb/rules/reload", "")
		require.Equal(t, 7, p.control.active.Load().Version, "the last good rules stay: %s", name)
		require.Equal(t, balance.Random, p.pool.route.Load().algorithm)
	}
}

func TestInvalidRulesAreRefusedWithEveryFault(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	before := p.file()
	bad := strings.Replace(ruleText(2, balance.Random), "algorithm: RANDOM", "algorithm: BEST", 1)
	bad = strings.Replace(bad, "min_confidence: 0.6", "min_confidence: 6", 1)
	res, text := p.call("POST", "/alb/rules/reload", bad)
	require.Equal(t, 422, res.StatusCode)
	var doc problemDocument
	require.NoError(t, json.Unmarshal([]byte(text), &doc))
	require.Len(t, doc.Errors, 2, text)
	for _, f := range doc.Errors {
		require.Positive(t, f.Line)
		require.Positive(t, f.Column)
	}
	p.wantProblem(413, "POST", "/alb/rules/reload", strings.Repeat("#", rules.MaxSize+1))
	require.Equal(t, before, p.file())
	require.Equal(t, 1, p.control.active.Load().Version)
}

func TestReloadGuards(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	one, two, three := p.file(), ruleText(2, balance.Random), ruleText(3, balance.IPHash)
	reload := func(status int, text string, headers ...string) (a rules.Active) {
		t.Helper()
		p.must(status, &a, "POST", "/alb/rules/reload", text, headers...)
		return a
	}
	match := func(text string) string { return fmt.Sprintf("If-Match: %q", rules.Sum([]byte(text))) }
	reload(412, two, match(three))
	require.Equal(t, one, p.file())
	reload(200, two, match(one), "Retune-Generation: 5")
	reload(412, three, match(one))
	reload(409, three, "Retune-Generation: 4")
	reload(409, three, "Retune-Generation: 5")
	require.Equal(t, two, p.file())
	require.EqualValues(t, 5, reload(200, two, "Retune-Generation: 5").Generation, "the same again is no conflict")
	reload(200, three, "Retune-Generation: 6")
	p.must(200, nil, "PUT", "/alb/mode", `{"time_scale":0.5}`, "Retune-Generation: 6")
	p.wantProblem(409, "PUT", "/alb/mode", `{"time_scale":1}`, "Retune-Generation: 5")
	p.wantProblem(400, "PUT", "/alb/mode", `{"time_scale":1}`, "Retune-Generation: x")
	require.Equal(t, 0.5, p.control.status().Mode.TimeScale, "whoever was replaced changes no mode either")
	p.must(200, nil, "PUT", "/alb/mode", `{"time_scale":1}`)
	reload(400, three, "If-Match: abc")
	reload(400, three, `If-Match: ""`) // no hash is no condition that could hold
	for _, g := range []string{"x", "0", "-1", "99999999999999999999"} {
		reload(400, three, "Retune-Generation: "+g)
	}
	reload(400, three, "Retune-Trial: maybe")
	reload(400, "", "Retune-Trial: true")
	require.Equal(t, three, p.file())
}

// Rules on trial live in memory alone: a proxy that restarts runs the champion.
func TestATrialLeavesTheFile(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	champion, candidate := p.file(), ruleText(2, balance.Random)
	var a rules.Active
	p.must(200, &a, "POST", "/alb/rules/reload", candidate, "Retune-Trial: true", "Retune-Generation: 3")
	require.True(t, a.Trial)
	require.Equal(t, champion, p.file())
	require.Equal(t, balance.Random, p.pool.route.Load().algorithm)
	var s steering.Status
	p.must(200, &s, "GET", "/alb/status", "")
	require.True(t, s.Rules.Trial)
	again, err := New(Config{Admin: "127.0.0.1:0", Rules: p.config.Rules, Log: p.log})
	require.NoError(t, err)
	require.Equal(t, 1, again.control.active.Load().Version, "a restart in the trial runs the champion")
	var b rules.Active
	p.must(200, &b, "POST", "/alb/rules/reload", candidate, "Retune-Generation: 3")
	require.False(t, b.Trial)
	require.Equal(t, candidate, p.file(), "the same bytes without the header make it last")
}

func TestAFileThatCannotBeWrittenChangesNothing(t *testing.T) {
	p := start(t, nil, backend(t, says("a")))
	dir := filepath.Dir(p.config.Rules)
	require.NoError(t, os.RemoveAll(dir)) // as root no permission would stop a write
	detail := p.wantProblem(500, "POST", "/alb/rules/reload", ruleText(2, balance.Random), "Retune-Generation: 9")
	require.Contains(t, detail, "could not be replaced")
	require.Equal(t, 1, p.control.active.Load().Version)
	require.Equal(t, balance.RoundRobin, p.pool.route.Load().algorithm)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	p.must(200, nil, "POST", "/alb/rules/reload", ruleText(2, balance.Random), "Retune-Generation: 8")
}

func TestStartWithBadRules(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.yml")
	bad := strings.NewReplacer("RANDOM", "BEST", "cooldown: 10s", "cooldown: soon").Replace(ruleText(2, balance.Random))
	require.NoError(t, os.WriteFile(path, []byte(bad), 0o644))
	_, err := New(Config{Admin: "127.0.0.1:0", Rules: path})
	var faults *rules.Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults.List, 2)
	require.Contains(t, err.Error(), path)
	_, err = New(Config{Admin: "127.0.0.1:0", Rules: filepath.Join(path, "below-a-file.yml")})
	require.Error(t, err)
}

func TestReplaceKeepsModeAndLink(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.yml"), filepath.Join(dir, "link.yml")
	require.NoError(t, os.WriteFile(real, []byte("old"), 0o640))
	require.NoError(t, os.Symlink(real, link))
	require.NoError(t, writeRules(link, []byte("new")))
	b, err := os.ReadFile(real)
	require.NoError(t, err)
	require.Equal(t, "new", string(b))
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	info, err = os.Stat(real)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm())
}

// 1,000 reloads under load, each of which switches the algorithm and every tenth of which is written to disk, and
// no request fails.
func TestAThousandReloadsLoseNoRequest(t *testing.T) {
	p := start(t, nil, backend(t, says("a")), backend(t, says("b")), backend(t, says("c")))
	stop := make(chan struct{})
	done, failed, wait := p.clients(4, stop)
	soon(t, "load", func() bool { return done.Load() > 0 })
	texts := []string{ruleText(2, balance.LeastConnections), ruleText(3, balance.IPHash)}
	first := done.Load()
	for i := range 1000 {
		var a rules.Active
		p.must(200, &a, "POST", "/alb/rules/reload", texts[i%2], fmt.Sprintf("Retune-Trial: %t", i%10 != 9))
		require.Equal(t, 2+i%2, a.Version)
	}
	during := done.Load() - first
	close(stop)
	wait()
	require.Zero(t, failed.Load())
	require.Positive(t, during)
	t.Logf("%d requests during 1,000 reloads, none failed", during)
	require.Equal(t, texts[1], p.file())
	soon(t, "nothing in flight", func() bool { return p.pool.inFlight() == 0 })
	require.True(t, bytes.Equal(p.control.active.Load().bytes, []byte(texts[1])))
}
