package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthSaysByStatusWhetherARoleIsWell(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	health := func(url string) int {
		return exitCode(run(t.Context(), []string{"health", url}, io.Discard, io.Discard), false)
	}
	require.Equal(t, exitOK, health(server.URL+"/readyz"))
	require.Equal(t, exitFailed, health(server.URL+"/other"))
	require.Equal(t, exitUsage, health("http://%"))
	server.Close()
	require.Equal(t, exitUnavailable, health(server.URL+"/readyz"))
}
