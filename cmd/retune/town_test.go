package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/postgres/managed"
	"retune/orchestrator/target"
	"retune/proxy/rules"
	"retune/proxy/steering"
)

// program is the built binary, which every town runs.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	if *soakBackend != "" {
		fmt.Fprintln(os.Stderr, serveSoak(*soakBackend))
		os.Exit(1)
	}
	dir, err := os.MkdirTemp("", "retune-test-")
	if err == nil {
		program = filepath.Join(dir, "retune")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("building the program: %w: %s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// town is every role as a process of its own, on free ports, with a Postgres of its own.
type town struct {
	t                       *testing.T
	dir                     string
	back                    []string
	traffic, admin, adminBy string // adminBy: what the orchestrator reaches the admin API by
	web                     string
	api                     *apiClient
	alb                     *target.ALB
	env                     []string        // of every process, beside our own
	postgres                *managed.Server // one that is not the orchestrator's own; nil: it has its own
	relay                   *relay          // between the orchestrators and it

	mu    sync.Mutex
	procs map[string]*process
}

type process struct {
	cmd  *exec.Cmd
	log  *transcript
	done chan struct{}
}

// transcript is what a process says, readable while it lives.
type transcript struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (t *transcript) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(b)
}

func (t *transcript) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// shortShape is a scenario that takes two seconds under the quick profile: enough requests to be evidence.
const shortShape = `{"name":"short","description":"A constant rate, for tests.","clients":50,
	"phases":[{"name":"constant","duration":"10s","from":80,"to":80}]}`

// failingShape is the same with a backend that is down for most of it.
const failingShape = `{"name":"failing","description":"A constant rate while a backend is down, for tests.","clients":50,
	"phases":[{"name":"constant","duration":"10s","from":80,"to":80}],
	"events":[{"at":"500ms","action":"fail","backend":"server-4"},{"at":"9500ms","action":"revive","backend":"server-4"}]}`

func newTown(t *testing.T) *town {
	t.Helper()
	addrs := quietAddrs(t, 7)
	dir, err := os.MkdirTemp("", "retune-town-") // t.TempDir is closed to the account that runs Postgres when we are root
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &town{t: t, dir: dir, back: addrs[:4], traffic: addrs[4], admin: addrs[5], adminBy: addrs[5], web: addrs[6], procs: map[string]*process{}}
	require.NoError(t, os.MkdirAll(w.path("scenarios"), 0o755))
	require.NoError(t, os.WriteFile(w.path("scenarios", "short.json"), []byte(shortShape), 0o644))
	require.NoError(t, os.WriteFile(w.path("scenarios", "failing.json"), []byte(failingShape), 0o644))
	require.NoError(t, os.Mkdir(w.path("tmp"), 0o755))
	w.env = []string{"TMPDIR=" + w.path("tmp")} // where load drivers work: so their process shows whose they are
	w.api, err = serverFlags{Server: "http://" + w.web}.client()
	require.NoError(t, err)
	w.alb, err = target.New([]string{"http://" + w.admin}, "")
	require.NoError(t, err)
	t.Cleanup(w.stop)
	return w
}

// quietAddrs are free addresses on ports that the kernel gives to no outgoing connection: what is restarted on one has
// it for itself, however many connections other tests make meanwhile.
func quietAddrs(t *testing.T, n int) (all []string) {
	t.Helper()
	for len(all) < n {
		port := 12_000 + rand.IntN(20_000)
		if _, given := portsGiven.LoadOrStore(port, true); given {
			continue // to another town, where it may be free for a moment
		}
		ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			continue // taken
		}
		defer ln.Close()
		all = append(all, ln.Addr().String())
	}
	return all
}

// portsGiven are those of all towns.
var portsGiven sync.Map

func (w *town) path(name ...string) string { return filepath.Join(append([]string{w.dir}, name...)...) }

// start runs a role; stop ends it at the end of the test.
func (w *town) start(name string, args ...string) *process {
	w.t.Helper()
	return w.startProgram(program, name, args...)
}

func (w *town) startProgram(program, name string, args ...string) *process {
	w.t.Helper()
	p := &process{cmd: exec.Command(program, args...), log: &transcript{}, done: make(chan struct{})}
	p.cmd.Env = append(append(os.Environ(), "RETUNE_LOG_FORMAT=text"), w.env...)
	p.cmd.Stderr, p.cmd.Stdout = p.log, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(w.t, p.cmd.Start())
	go func() { p.cmd.Wait(); close(p.done) }()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.procs[name] = p
	return p
}

func (w *town) startBackends(more ...string) {
	w.start("backends", append([]string{"backends", "--listen", strings.Join(w.back, ",")}, more...)...)
	for _, b := range w.back {
		w.answers("http://" + b + "/healthz")
	}
}

// startProxy starts the proxy; weights are the demo's unless given.
func (w *town) startProxy(weights ...string) {
	args := []string{"proxy", "--listen", w.traffic, "--admin", w.admin, "--rules", w.path("decision-rules.yml"), "--trust", "127.0.0.0/8"}
	for i, b := range demoBackends {
		weight := b.weight
		if len(weights) > 0 {
			weight = weights[i]
		}
		args = append(args, "--backend", fmt.Sprintf("%s=http://%s,weight=%s", b.id, w.back[i], weight))
	}
	w.start("proxy", args...)
	w.answers("http://" + w.admin + "/readyz")
}

func (w *town) startOrchestrator(more ...string) {
	w.startOrchestratorAs("orchestrator", w.web, more...)
}

func (w *town) startOrchestratorAs(name, web string, more ...string) {
	args := []string{"serve", "--web", web, "--data", w.path("data"), "--proxy-admin", "http://" + w.adminBy, "--target", "http://" + w.traffic, "--scenario-dir", w.path("scenarios")}
	for id, url := range demoControls(w.back) {
		args = append(args, "--control", id+"="+url)
	}
	w.start(name, append(args, more...)...)
	w.answers("http://" + web + "/healthz")
}

// startAll brings up the whole town.
func (w *town) startAll() {
	w.startBackends()
	w.startProxy()
	w.startOrchestrator()
}

func (w *town) process(name string) *process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.procs[name]
}

// kill is kill -9; it waits for the end of the role and of its load driver.
func (w *town) kill(name string) {
	w.t.Helper()
	p := w.process(name)
	require.NoError(w.t, p.cmd.Process.Kill())
	<-p.done
	if strings.HasPrefix(name, "orchestrator") {
		w.until("no load driver is left over", 5*time.Second, func() bool { return len(w.loadDrivers()) == 0 })
	}
}

// loadDrivers are the process numbers of the town's load drivers, whosever children they are. Only Linux can tell.
func (w *town) loadDrivers() (all []int) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, dir := range dirs {
		at, _ := os.Readlink(dir)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "cmdline"))
		args := strings.Split(string(line), "\x00")
		if strings.HasPrefix(at, w.path("tmp")+"/") && len(args) > 1 && args[1] == "load" {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
			all = append(all, pid)
		}
	}
	return all
}

// stop ends everything that runs, the orchestrator first, and shows the logs of a test that failed.
func (w *town) stop() {
	order := []string{"orchestrator", "orchestrator-2", "proxy"}
	for name := range w.procs {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		p := w.procs[name]
		if p == nil {
			continue
		}
		p.cmd.Process.Signal(syscall.SIGCONT) // a test that failed may have left it stopped
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(20 * time.Second):
			p.cmd.Process.Kill()
			<-p.done
			w.t.Errorf("%s did not stop within 20 s", name)
		}
		if w.t.Failed() {
			w.t.Logf("%s said:\n%s", name, p.log)
		}
		delete(w.procs, name)
	}
}

// until polls until ok, or fails the test with what was waited for.
func (w *town) until(what string, within time.Duration, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(within)
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("waited %s in vain: %s", within, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *town) answers(url string) {
	w.t.Helper()
	w.until(url+" answers", 30*time.Second, func() bool {
		res, err := http.Get(url)
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

func (w *town) call(method, path string, in, out any) {
	w.t.Helper()
	require.NoError(w.t, w.api.call(context.Background(), method, path, in, out))
}

// cycle is one as the API has it.
func (w *town) cycle(id int64) (c orchestrator.Cycle) {
	w.t.Helper()
	w.call(http.MethodGet, cyclePath(id), nil, &c)
	return c
}

// propose starts a cycle that judges a rule set.
func (w *town) propose(rs rules.RuleSet, force bool, scenarios ...string) int64 {
	w.t.Helper()
	return w.ask(map[string]any{"profile": "quick", "driver": "builtin", "generator": "file", "proposal": string(rules.Render(rs)), "scenarios": scenarios, "force": force})
}

func (w *town) ask(request map[string]any) int64 {
	w.t.Helper()
	request["kind"], request["trigger"] = "tune", "api"
	var c orchestrator.Cycle
	w.call(http.MethodPost, "/cycles", request, &c)
	return c.ID
}

// reaches waits until a cycle has a status, or has ended with another one.
func (w *town) reaches(id int64, want orchestrator.Status, within time.Duration) orchestrator.Cycle {
	w.t.Helper()
	var c orchestrator.Cycle
	w.until(fmt.Sprintf("cycle %d is %s", id, want), within, func() bool {
		if err := w.api.call(context.Background(), http.MethodGet, cyclePath(id), nil, &c); err != nil {
			return false
		}
		if c.Status != want && c.Status.Ended() {
			b, _ := json.MarshalIndent(c, "", " ")
			w.t.Fatalf("cycle %d is %s, want %s: %s\n%s", id, c.Status, want, c.Why, b)
		}
		return c.Status == want
	})
	return c
}

// ended waits for a cycle's end.
func (w *town) ended(id int64, within time.Duration) (c orchestrator.Cycle) {
	w.t.Helper()
	w.until(fmt.Sprintf("cycle %d ends", id), within, func() bool {
		return w.api.call(context.Background(), http.MethodGet, cyclePath(id), nil, &c) == nil && c.Status.Ended()
	})
	return c
}

// champion asserts that a version is in force, and that nothing is being measured.
func (w *town) champion(number int) {
	w.t.Helper()
	w.inForce(number)
	w.until("the proxy is not in measuring mode any more", 20*time.Second, func() bool {
		s, err := w.alb.Status(context.Background())
		return err == nil && s.Mode.Mode == steering.Adaptive && s.Mode.TimeScale == 1
	})
}

// inForce asserts that a version is in force: in the record, in the proxy by its hash, and in the proxy's file.
func (w *town) inForce(number int) {
	w.t.Helper()
	var v struct {
		Hash rules.Hash `json:"sha256"`
		YAML string     `json:"yaml"`
	}
	w.until("its record can be read", 30*time.Second, func() bool { // Postgres may only now notice that it was struck
		return w.api.call(context.Background(), http.MethodGet, fmt.Sprintf("/versions/%d", number), nil, &v) == nil
	})
	w.until(fmt.Sprintf("the proxy runs v%d", number), 20*time.Second, func() bool {
		now, err := w.alb.Serving(context.Background())
		return err == nil && now.Hash == v.Hash && !now.Trial
	})
	file, err := os.ReadFile(w.path("decision-rules.yml"))
	require.NoError(w.t, err)
	require.Equal(w.t, v.YAML, string(file), "the proxy's file holds v%d", number)
}
