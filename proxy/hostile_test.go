package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that announces a body and then stops sending holds nothing for longer than the request timeout.
func TestAStalledUploadIsCutAtTheTimeout(t *testing.T) {
	p := start(t, func(c *Config) { c.RequestTimeout = 300 * time.Millisecond }, backend(t, says("a")))
	c := p.dial()
	defer c.Close()
	_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n1")
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err = io.ReadAll(c) // an answer or none, but an end
	require.NoError(t, err)
	soon(t, "nothing is in flight", func() bool { return p.pool.inFlight() == 0 })
}

// A status that can't be passed on is a broken answer, and the backend's failure.
func TestAStatusThatIsNoneIsABrokenAnswer(t *testing.T) {
	ln := listenLocal(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(c))
			_, _ = io.WriteString(c, "HTTP/1.1 000 nothing\r\nContent-Length: 0\r\n\r\n")
			_ = c.Close()
		}
	}()
	defer func() { _ = ln.Close(); <-done }()
	p := start(t, nil, &httptest.Server{URL: "http://" + ln.Addr().String()})
	res, err := p.client.Post(p.url, "text/plain", nil)
	require.NoError(t, err)
	read(t, res)
	require.Equal(t, http.StatusBadGateway, res.StatusCode)
	require.Equal(t, "broken_answer", res.Header.Get("X-Retune-Error"))
}

// A rule file that is a pipe would be waited for, with everything that changes rules waiting behind it.
func TestAPipeIsNoRuleFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := New(Config{Rules: pipe, Admin: "127.0.0.1:0", TrafficListener: (net.Listener)(nil)})
	require.ErrorContains(t, err, "no regular file")
}
