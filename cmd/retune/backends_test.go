package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// It says when each backend is ready, each has its own speed, and it ends cleanly with its context.
func TestBackendsServeUntilTold(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{
			"backends", "--listen", "127.0.0.1:0,127.0.0.1:0", "--mean", "1ms,2ms", "--sigma", "0", "--concurrency", "0",
		}, io.Discard, w)
		w.Close()
	}()
	address := regexp.MustCompile(`server-\d ready on (http://127\.0\.0\.1:\d+)`)
	var ready string
	buf := make([]byte, 1024)
	for len(address.FindAllString(ready, -1)) < 2 {
		n, err := r.Read(buf)
		require.NoError(t, err, "it ended after %q", ready)
		ready += string(buf[:n])
	}
	for i, m := range address.FindAllStringSubmatch(ready, -1) {
		res, err := http.Get(m[1])
		require.NoError(t, err)
		res.Body.Close()
		require.Equal(t, []string{"1.000", "2.000"}[i], res.Header.Get("X-Service-Time-Ms"))
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	require.NoError(t, <-done)
}

func TestBackendsRefuseListsThatDontMatch(t *testing.T) {
	var stderr bytes.Buffer
	err := run(t.Context(), []string{"backends", "--listen", "127.0.0.1:0", "--mean", "1ms,2ms"}, io.Discard, &stderr)
	require.Equal(t, exitUsage, exitCode(err, false))
	require.Contains(t, stderr.String(), "--listen has 1 addresses but --mean has 2 times")
}

func TestBackendsRefuseValuesOutOfRange(t *testing.T) {
	for _, args := range []string{
		"--mean=1ms --sigma=-1", "--mean=1ms --concurrency=-1", "--mean=1ms --queue=-1", "--mean=0s", "--mean=soon",
	} {
		all := append([]string{"backends", "--listen=127.0.0.1:0"}, strings.Fields(args)...)
		err := run(t.Context(), all, io.Discard, io.Discard)
		require.Equal(t, exitUsage, exitCode(err, false), args)
	}
}

// A busy port: the exit code for it, the flag that helps, and no listener left behind.
func TestBackendsSayWhichPortIsBusy(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free.Close()
	var stderr bytes.Buffer
	listen := strings.Join([]string{free.Addr().String(), busy.Addr().String()}, ",")
	err = run(t.Context(), []string{"backends", "--listen", listen, "--mean", "1ms,1ms"}, io.Discard, &stderr)
	require.Equal(t, exitUnavailable, exitCode(err, false))
	require.Contains(t, stderr.String(), busy.Addr().String())
	require.Contains(t, stderr.String(), "--listen")
	again, err := net.Listen("tcp", free.Addr().String())
	require.NoError(t, err, "the first address is free again")
	again.Close()
}
