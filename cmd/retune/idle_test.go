package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	wantedIdle = 10_000
	// spareDescriptors are for everything beside the idle connections, in the proxy and in this process.
	spareDescriptors = 500
	// idleMost is what an idle connection may cost of the proxy's own memory, in bytes; the kernel's buffers are apart.
	idleMost = 1024
)

// Ten thousand connections that have each served a request and wait for the next cost at most a KiB each, and still
// work.
func TestIdleConnectionsCostLittle(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads the proxy's memory from /proc")
	}
	n := idleWithin(t)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	t.Cleanup(backend.Close)
	w := newTown(t)
	p := w.start("proxy", "proxy", "--listen", w.traffic, "--admin", w.admin, "--rules", w.path("decision-rules.yml"),
		"--backend", "a="+backend.URL)
	w.answers("http://" + w.admin + "/readyz")
	idle := make([]net.Conn, n)
	t.Cleanup(func() {
		for _, c := range idle {
			if c != nil {
				c.Close()
			}
		}
	})
	before := pssOf(t, p.cmd.Process.Pid)
	require.NoError(t, openIdle(w.traffic, idle))
	each := float64(pssOf(t, p.cmd.Process.Pid)-before) / float64(n)
	t.Logf("%d idle connections, %.0f bytes each", n, each)
	require.Less(t, each, float64(idleMost), "bytes for each idle connection")
	for i := 0; i < n; i += n / 200 {
		require.NoError(t, askIdle(idle[i], fmt.Sprintf("/again/%d", i)), "connection %d of %d", i, n)
	}
}

// idleWithin is how many connections the limit of open files allows; Go has raised it to the hard one, here and in the
// proxy.
func idleWithin(t *testing.T) int {
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	n := wantedIdle
	if most := int(min(limit.Max, 1<<30)) - spareDescriptors; n > most {
		n = most
		t.Logf("%d connections instead of %d: the hard limit of open files is %d", n, wantedIdle, limit.Max)
	}
	require.Greater(t, n, 200, "raise the limit of open files, which is %d", limit.Max)
	return n
}

// openIdle fills conns with connections to addr that have each served a request, a few at a time.
func openIdle(addr string, conns []net.Conn) error {
	const atOnce = 8
	errs := make([]error, atOnce)
	var under sync.WaitGroup
	for k := range atOnce {
		under.Go(func() {
			for i := k; i < len(conns) && errs[k] == nil; i += atOnce {
				if conns[i], errs[k] = net.DialTimeout("tcp", addr, 5*time.Second); errs[k] == nil {
					errs[k] = askIdle(conns[i], fmt.Sprintf("/first/%d", i))
				}
			}
		})
	}
	under.Wait()
	return errors.Join(errs...)
}

// askIdle sends a request for a path on a connection and compares the answer, which is the path.
func askIdle(c net.Conn, path string) error {
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: idle\r\n\r\n", path); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReaderSize(c, 512), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && (res.StatusCode != http.StatusOK || string(body) != path) {
		err = fmt.Errorf("GET %s: %s, %q", path, res.Status, body)
	}
	return err
}

// pssOf is a process's memory in bytes: its own, and its part of what it shares.
func pssOf(t *testing.T, pid int) int {
	t.Helper()
	all, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(all)) {
		var kib int
		if _, err := fmt.Sscanf(line, "Pss: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	t.Fatalf("no Pss in %s", all)
	return 0
}
