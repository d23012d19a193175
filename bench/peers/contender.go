//go:build linux

package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"
	"time"
)

// The contenders' names. Ratios are to nginx first; direct is a backend without anything before it.
const (
	nginx   = "nginx"
	haproxy = "haproxy"
	retune  = "retune"
	before  = "before" // another build of retune
	direct  = "direct"
)

//go:embed config/nginx.conf
var nginxConfig string

//go:embed config/haproxy.cfg
var haproxyConfig string

// stand is what one scenario runs on: the backends, and the contenders before them.
type stand struct {
	scenario
	options
	dir        string // for files of this scenario
	backends   *child
	addresses  []string // of the backends
	contenders []*contender
}

// contender is one load balancer, or a backend for itself.
type contender struct {
	name    string
	address string
	*child  // nil when it is direct
}

// pid is the contender's process; 0 when it has none.
func (c *contender) pid() int {
	if c.child == nil {
		return 0
	}
	return c.cmd.Process.Pid
}

// newStand starts everything and checks that every contender answers as it should. What it returns is to be closed,
// also with an error.
func newStand(ctx context.Context, s scenario, o options) (*stand, error) {
	st := &stand{scenario: s, options: o, dir: filepath.Join(o.dir, s.name)}
	if err := os.Mkdir(st.dir, 0o755); err != nil { // nginx's worker is another user
		return st, err
	}
	if err := st.startBackends(ctx); err != nil {
		return st, err
	}
	starts := []func(address string) (*contender, error){st.startNginx, st.startHAProxy, st.startRetune}
	if o.before != "" {
		starts = append(starts, st.startBefore)
	}
	for _, start := range starts {
		address, err := freeAddresses(1)
		if err != nil {
			return st, err
		}
		c, err := start(address[0])
		if err != nil {
			return st, err
		}
		st.contenders = append(st.contenders, c)
	}
	if s.kind == openLoad {
		st.contenders = append(st.contenders, &contender{name: direct, address: st.addresses[0]})
	}
	for _, c := range st.contenders {
		if err := c.ready(ctx); err != nil {
			return st, err
		}
	}
	return st, nil
}

// close stops everything.
func (st *stand) close() {
	for _, c := range st.contenders {
		if c.child != nil {
			c.stop()
		}
	}
	if st.backends != nil {
		st.backends.stop()
	}
}

// startBackends starts four backends, all in one process, and waits for them.
func (st *stand) startBackends(ctx context.Context) (err error) {
	_, rest := st.cores()
	if st.addresses, err = freeAddresses(4); err != nil {
		return err
	}
	if st.backends, err = start("backends", rest, lean, append([]string{st.self, "backends"}, st.addresses...)...); err != nil {
		return err
	}
	for _, a := range st.addresses {
		if err := (&contender{"backend", a, st.backends}).ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// lean is the environment of our own loops: one thread, which nothing interrupts.
var lean = []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1"}

func (st *stand) startNginx(address string) (*contender, error) {
	file, err := st.configure("nginx.conf", nginxConfig, address)
	if err != nil {
		return nil, err
	}
	return st.contender(nginx, address, nil, st.nginx, "-p", st.dir, "-c", file)
}

func (st *stand) startHAProxy(address string) (*contender, error) {
	file, err := st.configure("haproxy.cfg", haproxyConfig, address)
	if err != nil {
		return nil, err
	}
	return st.contender(haproxy, address, nil, st.haproxy, "-db", "-f", file)
}

func (st *stand) startRetune(address string) (*contender, error) {
	return st.proxy(retune, st.retune, address, st.proxyFlags...)
}

func (st *stand) startBefore(address string) (*contender, error) {
	return st.proxy(before, st.before, address)
}

// proxy starts a build of Retune's proxy as its users do: default rules, everything on.
func (st *stand) proxy(name, program, address string, flags ...string) (*contender, error) {
	admin, err := freeAddresses(1)
	if err != nil {
		return nil, err
	}
	argv := []string{program, "proxy", "--listen", address, "--admin", admin[0], "--rules", filepath.Join(st.dir, name+".yml")}
	for i, a := range st.addresses {
		argv = append(argv, "--backend", fmt.Sprintf("b%d=http://%s", i, a))
	}
	return st.contender(name, address, []string{"GOMAXPROCS=" + strconv.Itoa(st.threads)}, append(argv, flags...)...)
}

// configure writes a configuration file of the scenario.
func (st *stand) configure(name, text, listen string) (file string, err error) {
	connections := 8192
	if st.kind == idleMemory {
		connections = st.connections + 1000
	}
	var b bytes.Buffer
	err = template.Must(template.New(name).Parse(text)).Execute(&b, map[string]any{
		"Threads": st.threads, "Dir": st.dir, "Listen": listen, "Backends": st.addresses, "Connections": connections,
	})
	file = filepath.Join(st.dir, name)
	return file, errors.Join(err, os.WriteFile(file, b.Bytes(), 0o644))
}

func (st *stand) contender(name, address string, env []string, argv ...string) (*contender, error) {
	core, _ := st.cores()
	c, err := start(name, core, env, argv...)
	return &contender{name, address, c}, err
}

// ready waits until the contender answers, and checks its answers.
func (c *contender) ready(ctx context.Context) (err error) {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if c.child != nil {
			if err := c.alive(); err != nil {
				return err
			}
		}
		if err = c.check(ctx); err == nil {
			return nil
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
	return fmt.Errorf("%s does not answer as it should: %w", c.name, err)
}

// check asks for each kind of answer once, on a connection of its own.
func (c *contender) check(ctx context.Context) error {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	for _, x := range []struct {
		method, path string
		sent, length int
	}{
		{http.MethodGet, smallPath, 0, smallBody}, {http.MethodGet, largePath, 0, largeBody}, {http.MethodPost, smallPath, 16 << 10, smallBody},
	} {
		r, err := http.NewRequestWithContext(ctx, x.method, "http://"+c.address+x.path, strings.NewReader(strings.Repeat("a", x.sent)))
		if err != nil {
			return err
		}
		a, err := client.Do(r)
		if err != nil {
			return err
		}
		n, err := io.Copy(io.Discard, a.Body)
		a.Body.Close()
		if err != nil {
			return err
		}
		if a.StatusCode != http.StatusOK || n != int64(x.length) {
			return fmt.Errorf("%s %s: %s with %d bytes, want 200 with %d", x.method, x.path, a.Status, n, x.length)
		}
	}
	return nil
}

// freeAddresses are loopback addresses that nobody listens on.
func freeAddresses(n int) (all []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// lookUp is where a program stands; /usr/sbin is not in everybody's PATH.
func lookUp(name string) (string, error) {
	if file, err := exec.LookPath(name); err == nil {
		return file, nil
	}
	return exec.LookPath("/usr/sbin/" + name)
}
