package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/steering"
)

var (
	soakFor     = flag.Duration("soak", 0, "how long TestSoak puts load on the proxy; 0: for a few seconds, at a fixed rate")
	soakRate    = flag.Int("soak-rate", 0, "requests a second of a long TestSoak; 0: half of what the machine holds")
	soakBackend = flag.String("soak-backend", "", "be a backend of TestSoak on this address, and test nothing")
)

const (
	shortSoak = 9 * time.Second
	shortRate = 300
	// Of a request: how long a backend may take to begin its answer.
	soakTimeout = 3 * time.Second
	// faultSlack is for how long after a fault's end requests may still end for its sake.
	faultSlack = 500 * time.Millisecond
	// mostLag is how late clients may begin a request: where they do, backends may miss their time as well.
	mostLag = 500 * time.Millisecond
)

// soak is a proxy under load, whose first backend is killed and hung in turn, and whose last one comes and goes.
type soak struct {
	*town
	load    *soakLoad
	rate    int
	began   time.Time
	faults  []*soakFault
	samples []soakSample
	reloads int
	drained int           // how often the last backend was drained, taken out and added
	late    time.Duration // by how much anything of it came late, at most
}

// soakFault is what was done to the first backend.
type soakFault struct {
	kind     string // killed | hung
	from, to time.Time
	inFlight int64 // requests of all clients when it began
	explains int   // requests that failed of it
}

// soakSample is the proxy's size at one instant.
type soakSample struct{ rss, goroutines, fds float64 }

// Under load, with rules that change every second and backends that die, hang, come and go, each request that fails has
// a cause that the proxy can't do anything about; and the proxy stays as large as it was.
func TestSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads the proxy's size from /proc")
	}
	s := startSoak(t)
	atRest := s.descriptors()
	d := *soakFor
	if s.rate = shortRate; d == 0 {
		d = shortSoak
	} else {
		s.fillJournals()
		if s.rate = *soakRate; s.rate == 0 {
			held := newSoakLoad(s.traffic).saturate(4 * time.Second)
			t.Logf("the machine holds %d requests a second with clients and backends on it", held)
			s.rate = held / 2
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	s.began = time.Now()
	done := make(chan struct{})
	go func() { defer close(done); s.load.open(ctx, s.rate) }()
	s.happen(ctx)
	<-done
	s.load.client.CloseIdleConnections()
	s.report(time.Since(s.began))
	if lag := s.load.lag.Round(time.Millisecond); lag > mostLag && *soakFor == 0 {
		t.Skipf("the machine was too busy to tell anything: requests began %s late", lag)
	} else if lag > mostLag {
		t.Errorf("the machine was too busy: requests began %s late, at most, and what is said below may come of it", lag)
	}
	s.explainFailures()
	s.countedOnce()
	s.allAlgorithmsServed()
	s.comesToRest(atRest)
	if *soakFor != 0 {
		s.staysFlat()
	}
}

func startSoak(t *testing.T) *soak {
	s := &soak{town: newTown(t)}
	s.load = newSoakLoad(s.traffic)
	args := []string{"proxy", "--listen", s.traffic, "--admin", s.admin, "--rules", s.path("decision-rules.yml"), "--trust", "127.0.0.0/8",
		"--request-timeout", soakTimeout.String(), "--health-interval", "500ms", "--health-timeout", "1s", "--log-level", "error"}
	for i, addr := range s.back {
		s.startBackend(i)
		args = append(args, "--backend", soakID(i)+"=http://"+addr)
	}
	s.start("proxy", args...)
	s.answers("http://" + s.admin + "/readyz")
	return s
}

func soakID(i int) string { return fmt.Sprintf("server-%d", i+1) }

func (s *soak) startBackend(i int) {
	s.t.Helper()
	s.startProgram(os.Args[0], soakID(i), "-soak-backend", s.back[i])
	s.answers("http://" + s.back[i] + "/healthz")
}

// happen lets everything happen that is due, until ctx ends and no fault is under way.
func (s *soak) happen(ctx context.Context) {
	const turn = 10 * time.Second // after which the faults come again
	reloads := time.Second
	if *soakFor == 0 { // so that every algorithm has its turn
		reloads = shortSoak / 12
	}
	timetable := []struct {
		what      string
		at, every time.Duration
		do        func()
	}{
		{"sampling", 0, time.Second, s.sample},
		{"reloading", 500 * time.Millisecond, reloads, s.reload},
		{"telling", 30 * time.Second, 30 * time.Second, s.progress},
		{"forgiving", 800 * time.Millisecond, turn, s.forgive},
		{"killing", time.Second, turn, s.killFirst},
		{"reviving", 3 * time.Second, turn, s.reviveFirst},
		{"forgiving", 4 * time.Second, turn, s.forgive},
		{"hanging", 4500 * time.Millisecond, turn, s.hangFirst},
		{"waking", 8 * time.Second, turn, s.wakeFirst},
		{"draining", 1500 * time.Millisecond, 7 * time.Second, func() { s.backendOf(3, http.MethodPut, `{"drain":true}`) }},
		{"removing", 2500 * time.Millisecond, 7 * time.Second, s.removeLast},
		{"adding", 3500 * time.Millisecond, 7 * time.Second, func() { s.backendOf(3, http.MethodPut, `{"url":"http://`+s.back[3]+`"}`) }},
	}
	for ctx.Err() == nil || s.faulty() {
		for i := range timetable {
			began := time.Since(s.began)
			e := &timetable[i]
			if began < e.at {
				continue
			}
			s.late = max(s.late, began-e.at)
			e.at += e.every
			e.do()
			if took := time.Since(s.began) - began; took > time.Second {
				s.t.Logf("%5.0f s: %s took %s", began.Seconds(), e.what, took.Round(time.Millisecond))
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// faulty reports whether a fault is under way.
func (s *soak) faulty() bool { return len(s.faults) > 0 && s.faults[len(s.faults)-1].to.IsZero() }

func (s *soak) begin(kind string) {
	s.load.trouble.Store(true)
	s.faults = append(s.faults, &soakFault{kind: kind, from: time.Now(), inFlight: s.load.inFlight.Load()})
}

// killFirst is kill -9. Requests that begin after it are refused, and go elsewhere.
func (s *soak) killFirst() {
	s.begin("killed")
	s.kill(soakID(0))
	s.faults[len(s.faults)-1].to = time.Now().Add(faultSlack)
}

func (s *soak) reviveFirst() {
	s.startBackend(0)
	s.load.trouble.Store(false)
}

func (s *soak) hangFirst() {
	s.begin("hung")
	s.signalFirst(syscall.SIGSTOP)
}

func (s *soak) wakeFirst() {
	s.signalFirst(syscall.SIGCONT)
	s.load.trouble.Store(false)
	s.faults[len(s.faults)-1].to = time.Now().Add(faultSlack)
}

func (s *soak) signalFirst(sig os.Signal) {
	s.t.Helper()
	p := s.procs[soakID(0)]
	if err := p.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("%v for %s, which somebody else has ended (%v): %v", sig, soakID(0), p.cmd.ProcessState, err)
	}
}

// forgive lets the first backend have its share at once: without, it would soon be ejected for a minute.
func (s *soak) forgive() {
	require.NoError(s.t, s.alb.SetMode(s.t.Context(), steering.Mode{Mode: steering.Adaptive, Reset: true}))
}

// reload puts the next algorithm in force.
func (s *soak) reload() {
	all := balance.Algorithms()
	algorithm := all[s.reloads%len(all)]
	body := rules.Render(everywhere(algorithm))
	var active rules.Active
	s.ask(http.MethodPost, "/alb/rules/reload", string(body), &active)
	require.Equal(s.t, rules.Sum(body), active.Hash)
	require.Equal(s.t, algorithm, s.status().Algorithm)
	s.reloads++
}

func (s *soak) removeLast() {
	s.unharmed(s.status().Backends[3])
	s.backendOf(3, http.MethodDelete, "")
	s.drained++
}

func (s *soak) backendOf(i int, method, body string) {
	s.ask(method, "/alb/backends/"+soakID(i), body, nil)
}

// ask calls the admin API.
func (s *soak) ask(method, path, body string, into any) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.admin+path, strings.NewReader(body))
	require.NoError(s.t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	require.Equal(s.t, 2, res.StatusCode/100, "%s %s: %s", method, path, res.Status)
	if into != nil {
		require.NoError(s.t, json.NewDecoder(res.Body).Decode(into))
	}
}

func (s *soak) status() (st steering.Status) {
	s.t.Helper()
	s.ask(http.MethodGet, "/alb/status", "", &st)
	return st
}

// metrics are the proxy's, by name and labels.
func (s *soak) metrics() map[string]float64 {
	s.t.Helper()
	res, err := http.Get("http://" + s.admin + "/metrics")
	require.NoError(s.t, err)
	defer res.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if i := strings.LastIndexByte(lines.Text(), ' '); i > 0 {
			if v, err := strconv.ParseFloat(lines.Text()[i+1:], 64); err == nil {
				all[lines.Text()[:i]] = v
			}
		}
	}
	return all
}

func (s *soak) sample() {
	m := s.metrics()
	s.samples = append(s.samples, soakSample{m["process_resident_memory_bytes"], m["go_goroutines"], m["process_open_fds"]})
}

func (s *soak) progress() {
	s.load.mu.Lock()
	ended, failed := s.load.ended, len(s.load.failed)
	s.load.mu.Unlock()
	now := s.samples[len(s.samples)-1]
	s.t.Logf("%5.0f s: %d requests, %d failed, %d in flight, %d reloads, %d faults, %s late; RSS %.1f MiB, %.0f goroutines, %.0f descriptors",
		time.Since(s.began).Seconds(), ended, failed, s.load.inFlight.Load(), s.reloads, len(s.faults), s.late.Round(time.Millisecond), now.rss/(1<<20), now.goroutines, now.fds)
}

// fillJournals makes as many decisions as the proxy remembers, so that its journal does not grow any more.
func (s *soak) fillJournals() {
	for range steering.JournalSize {
		require.NoError(s.t, s.alb.SetMode(s.t.Context(), steering.Mode{Mode: steering.Adaptive}))
	}
}

// explain names why a request failed; "" when nothing that was done to the first backend is the cause.
func (s *soak) explain(a *soakAnswer) string {
	for _, f := range s.faults {
		if a.due.After(f.to) || a.end.Before(f.from) {
			continue
		}
		if why := f.explain(a); why != "" {
			f.explains++
			return why
		}
	}
	return ""
}

// explain names how the fault, during which a request was under way, made it fail; "" when it can't have.
func (f *soakFault) explain(a *soakAnswer) string {
	switch post, tunnel := strings.HasPrefix(a.kind, "POST"), a.kind == "WebSocket"; {
	case errors.Is(a.err, errWrong):
	case f.kind == "hung" && a.status == http.StatusGatewayTimeout && a.cause == "timeout":
		return "hung: no answer in time"
	case f.kind == "killed" && post && a.status == http.StatusBadGateway && a.cause == "broken_answer":
		return "killed: a POST is not sent twice"
	case f.kind == "killed" && tunnel && a.err != nil:
		return "killed: a WebSocket's end"
	case f.kind == "killed" && !tunnel && a.status == http.StatusOK && a.err != nil:
		return "killed: half an answer"
	case f.kind == "hung" && !tunnel && a.status == http.StatusOK && a.err != nil && a.end.Sub(a.due) >= soakTimeout:
		return "hung: half an answer in time"
	}
	return ""
}

// explainFailures asserts that every failure has a cause, and that no fault is the cause of more than it can be.
func (s *soak) explainFailures() {
	causes, unexplained := map[string]int{}, 0
	for i := range s.load.failed {
		a := &s.load.failed[i]
		why := s.explain(a)
		if why == "" {
			if unexplained++; unexplained <= 50 {
				s.t.Errorf("unexplained: %s, %.1f s after the beginning", a, a.due.Sub(s.began).Seconds())
			}
			continue
		}
		causes[why+" ("+a.kind+")"]++
	}
	for _, why := range slices.Sorted(maps.Keys(causes)) {
		s.t.Logf("failed, %-60s %d", why, causes[why])
	}
	s.t.Logf("failed, %-60s %d", "unexplained", unexplained)
	for _, f := range s.faults {
		most := f.inFlight + int64(float64(s.rate)*faultSlack.Seconds())
		if f.kind == "hung" { // once the first requests have timed out, no more are sent there
			most += int64(float64(s.rate) * soakTimeout.Seconds())
		}
		if int64(f.explains) > most {
			s.t.Errorf("%d requests failed because %s was %s %.1f s after the beginning: at most %d were in flight then",
				f.explains, soakID(0), f.kind, f.from.Sub(s.began).Seconds(), most)
		}
	}
}

// countedOnce asserts that the failures in the proxy's books are those that its clients saw, and no backend but the
// first had any.
func (s *soak) countedOnce() {
	seen := 0
	for _, a := range s.load.failed {
		if a.kind != "WebSocket" { // the proxy does not look into tunnels
			seen++
		}
	}
	retried := s.metrics()[`retune_proxy_retries_total{backend="`+soakID(0)+`"}`]
	for _, b := range s.status().Backends {
		if b.ID != soakID(0) {
			s.unharmed(b)
			continue
		}
		booked := int(b.Errors) - int(retried)
		s.t.Logf("failures seen %d, booked %d; retried %.0f", seen, booked, retried)
		if booked < seen || booked > seen+s.load.aborted {
			s.t.Errorf("%d failures are in the books, clients saw %d and gave %d requests up", booked, seen, s.load.aborted)
		}
	}
}

func (s *soak) unharmed(b steering.BackendStatus) {
	s.t.Helper()
	if b.Errors != 0 {
		s.t.Errorf("%s has %d errors %.1f s after the beginning, and nobody did anything to it", b.ID, b.Errors, time.Since(s.began).Seconds())
	}
}

func (s *soak) allAlgorithmsServed() {
	served := map[string]float64{}
	of := regexp.MustCompile(`^retune_proxy_requests_total\{algorithm="(\w+)"`)
	for name, n := range s.metrics() {
		if m := of.FindStringSubmatch(name); m != nil {
			served[m[1]] += n
		}
	}
	for _, a := range balance.Algorithms() {
		if served[string(a)] == 0 {
			s.t.Errorf("%s was in force and served nothing", a)
		}
	}
}

// comesToRest asserts that nothing is left of the load, the connections to the backends after their time.
func (s *soak) comesToRest(atRest soakDescriptors) {
	s.t.Helper()
	left := "no request is in flight"
	s.until(left, 5*time.Second, func() bool {
		return !slices.ContainsFunc(s.status().Backends, func(b steering.BackendStatus) bool { return b.InFlight != 0 })
	})
	for name, n := range s.metrics() {
		if strings.HasPrefix(name, "retune_proxy_active_connections{") && n != 0 {
			s.t.Errorf("%s is %v after all requests have ended", name, n)
		}
	}
	s.until("the clients' connections are gone", 5*time.Second, func() bool { return s.descriptors().clients == 0 })
	now := s.descriptors()
	s.t.Logf("descriptors at rest before %+v, after %+v", atRest, now)
	s.until("the connections to the backends are gone", 10*time.Second, func() bool { return s.descriptors().backends == 0 })
	s.until(fmt.Sprintf("%d descriptors beside connections are open, as before", atRest.others), 5*time.Second,
		func() bool { return s.descriptors().others == atRest.others })
}

// soakDescriptors are the proxy's open ones.
type soakDescriptors struct{ clients, admin, backends, others int }

// descriptors tells the proxy's connections by the ports at their ends.
func (s *soak) descriptors() (d soakDescriptors) {
	s.t.Helper()
	proc := fmt.Sprintf("/proc/%d", s.procs["proxy"].cmd.Process.Pid)
	table, err := os.ReadFile(proc + "/net/tcp")
	require.NoError(s.t, err)
	ends := map[string][2]string{} // by inode: the ports at our end and at theirs
	for _, line := range strings.Split(string(table), "\n")[1:] {
		if f := strings.Fields(line); len(f) > 9 && f[3] != "0A" { // not those that listen
			ends["socket:["+f[9]+"]"] = [2]string{f[1][strings.IndexByte(f[1], ':'):], f[2][strings.IndexByte(f[2], ':'):]}
		}
	}
	files, err := filepath.Glob(proc + "/fd/*")
	require.NoError(s.t, err)
	for _, file := range files {
		target, err := os.Readlink(file)
		switch end, ok := ends[target]; {
		case err != nil: // it has closed
		case ok && end[0] == hexPort(s.traffic):
			d.clients++
		case ok && end[0] == hexPort(s.admin):
			d.admin++
		case ok && slices.ContainsFunc(s.back, func(b string) bool { return end[1] == hexPort(b) }):
			d.backends++
		default:
			d.others++
		}
	}
	return d
}

// hexPort is an address's port as /proc writes it.
func hexPort(addr string) string {
	port, _ := strconv.Atoi(addr[strings.LastIndexByte(addr, ':')+1:])
	return fmt.Sprintf(":%04X", port)
}

// report prints what happened.
func (s *soak) report(took time.Duration) {
	first, last := s.samples[0], s.samples[len(s.samples)-1]
	s.t.Logf("\n%sreloads              %d\nfaults               %d\ntaken out and added  %d times\nlate by at most      %s\n"+
		"RSS                  %.1f MiB at the beginning, %.1f at the end\ngoroutines           %.0f, %.0f\ndescriptors          %.0f, %.0f",
		s.load.summary(took), s.reloads, len(s.faults), s.drained, s.late.Round(time.Millisecond),
		first.rss/(1<<20), last.rss/(1<<20), first.goroutines, last.goroutines, first.fds, last.fds)
}

// staysFlat compares the medians of the second and the last tenth of the time.
func (s *soak) staysFlat() {
	n := len(s.samples) / 10
	if n < 5 {
		s.t.Logf("whether anything grows can't be told of %d seconds", len(s.samples))
		return
	}
	for _, of := range []struct {
		what  string
		value func(soakSample) float64
		slack float64 // beside a tenth
	}{
		{"RSS in bytes", func(s soakSample) float64 { return s.rss }, 4 << 20},
		{"goroutines", func(s soakSample) float64 { return s.goroutines }, 10},
		{"descriptors", func(s soakSample) float64 { return s.fds }, 50 + float64(s.rate)/2}, // as many as wait for the hung backend, on average
	} {
		second, last := median(s.samples[n:2*n], of.value), median(s.samples[len(s.samples)-n:], of.value)
		s.t.Logf("%s: %.0f in the second tenth, %.0f in the last", of.what, second, last)
		if last > 1.1*second+of.slack {
			s.t.Errorf("%s grew from %.0f to %.0f: more than a tenth and %.0f", of.what, second, last, of.slack)
		}
	}
}

func median(samples []soakSample, value func(soakSample) float64) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, value(s))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
