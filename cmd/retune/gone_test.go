package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that resets its connection in the moment in which its backend does, so that an answer which somebody made
// for it finds nobody, harms none of the others. The proxy is stopped meanwhile, so that it sees both at once.
func TestAClientAndItsBackendMayGoAtTheSameTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("it reads from /proc whether the proxy has stopped")
	}
	for name, last := range map[string]string{"no answer": "", "an interim answer": "HTTP/1.1 103 Early Hints\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			posted := make(chan net.Conn)
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					c, _, err := w.(http.Hijacker).Hijack()
					if err == nil {
						posted <- c
					}
				}
			}))
			t.Cleanup(backend.Close)
			w := newTown(t)
			p := w.start("proxy", "proxy", "--listen", w.traffic, "--admin", w.admin, "--rules", w.path("decision-rules.yml"),
				"--backend", "a="+backend.URL)
			w.answers("http://" + w.admin + "/readyz")
			client, err := net.Dial("tcp", w.traffic)
			require.NoError(t, err)
			_, err = io.WriteString(client, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
			require.NoError(t, err)
			b := <-posted
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
			w.until("the proxy has stopped", 5*time.Second, func() bool { return stopped(p.cmd.Process.Pid) })
			_, err = io.WriteString(b, last)
			require.NoError(t, err)
			reset(t, b)
			reset(t, client)
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
			w.answers("http://" + w.traffic + "/")
		})
	}
}

func reset(t *testing.T, c net.Conn) {
	t.Helper()
	require.NoError(t, c.(*net.TCPConn).SetLinger(0))
	require.NoError(t, c.Close())
}

func stopped(pid int) bool {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "T")
}
