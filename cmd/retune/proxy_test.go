package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBackendFlags(t *testing.T) {
	list, err := parseBackends([]string{"a=http://127.0.0.1:5001,weight=6", "b=http://h:1 c=https://h:2"})
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, "a", list[0].ID)
	require.Equal(t, 6, list[0].Weight)
	require.Equal(t, "127.0.0.1:5001", list[0].URL.Host)
	require.Equal(t, 1, list[1].Weight)
	require.Equal(t, "https", list[2].URL.Scheme)
	for _, bad := range []string{"http://h:1", "=http://h:1", "a=h:1", "a=", "a=http://h:1,6", "a=http://h:1,weight=0", "a=http://h:1,weight=x"} {
		_, err := parseBackends([]string{bad})
		require.ErrorContains(t, err, "--backend", bad)
		require.ErrorContains(t, err, "write it as", bad)
	}
	_, err = parseBackends(nil)
	require.ErrorContains(t, err, "--backend server-1=", "it says how")
}

// What a user gets wrong is told with the flag's name, and by the exit code.
func TestProxyRefusesToStart(t *testing.T) {
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer busy.Close()
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"busy traffic port": {[]string{"--listen", busy.Addr().String(), "--admin", "127.0.0.1:0"}, exitUnavailable, "--listen"},
		"busy admin port":   {[]string{"--listen", "127.0.0.1:0", "--admin", busy.Addr().String()}, exitUnavailable, "--admin"},
		"open admin port":   {[]string{"--listen", "127.0.0.1:0", "--admin", "0.0.0.0:0"}, exitUsage, "RETUNE_ADMIN_TOKEN"},
		"no prefix":         {[]string{"--trust", "local"}, exitUsage, "trust"},
		"no time":           {[]string{"--request-timeout", "0s"}, exitUsage, "--request-timeout"},
		"half a pair":       {[]string{"--tls-cert", "cert.pem"}, exitUsage, "--tls-key"},
		"no certificate":    {[]string{"--tls-cert", "none.pem", "--tls-key", "none.key"}, exitUsage, "none.pem"},
		"twice":             {[]string{"--backend", "a=http://127.0.0.1:2"}, exitUsage, "named twice"},
	} {
		t.Run(name, func(t *testing.T) {
			common := []string{"proxy", "--rules", filepath.Join(t.TempDir(), "r.yml"), "--backend", "a=http://127.0.0.1:1"}
			var out, errs bytes.Buffer
			err := run(context.Background(), append(common, c.args...), &out, &errs)
			var e *exitError
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.code, e.code)
			require.Contains(t, errs.String(), c.says)
			require.Empty(t, out.String())
			if c.code == exitUsage {
				require.NoFileExists(t, common[2], "nothing was begun")
			}
		})
	}
}

// SIGHUP, which other proxies take as "read your configuration again", is no end.
func TestAHangupReadsTheRulesAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	file := filepath.Join(t.TempDir(), "r.yml")
	log, err := os.Create(file + ".log")
	require.NoError(t, err)
	defer log.Close()
	said := func(what string) bool {
		b, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		return strings.Contains(string(b), what)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--backend", "a=http://127.0.0.1:1", "--rules", file}, io.Discard, log)
	}()
	hangup := func(says string) {
		require.Eventually(t, func() bool {
			require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
			return said(says)
		}, 20*time.Second, 20*time.Millisecond, says)
	}
	require.Eventually(t, func() bool { return said(`"msg":"serving`) }, 20*time.Second, 5*time.Millisecond)
	hangup(`"msg":"rules in force"`)
	require.NoError(t, os.WriteFile(file, []byte("version: none\n"), 0o644))
	hangup(file + ":1:10")
	select {
	case err := <-ended:
		require.Fail(t, "it ended", "%v", err)
	default:
	}
	cancel()
	require.NoError(t, <-ended)
}

// Interrupted, the proxy drains and ends well.
func TestProxyEndsWell(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out, errs bytes.Buffer
	err := run(ctx, []string{"proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--backend", "a=http://127.0.0.1:1",
		"--rules", filepath.Join(t.TempDir(), "r.yml")}, &out, &errs)
	require.NoError(t, err)
	require.Contains(t, errs.String(), `"msg":"draining"`)
}
