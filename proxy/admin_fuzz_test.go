package proxy

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"retune/proxy/rules"
)

// FuzzAdmin: whatever is asked of the admin API, it answers in JSON or a problem document, and what it refuses
// has changed nothing.
func FuzzAdmin(f *testing.F) {
	for _, s := range [][4]string{
		{"POST", "/alb/rules/reload", "Retune-Generation: 1\nRetune-Trial: true", string(rules.Render(rules.Default()))},
		{"POST", "/alb/rules/reload", "If-Match: \"abc\"", ""}, {"POST", "/alb/rules/reload", "", "version: &a [*a]"},
		{"PUT", "/alb/mode", "", `{"mode":"fixed","algorithm":"RANDOM","reset":true,"time_scale":0.2}`}, {"PUT", "/alb/mode", "", `{"mode":"adaptive"}`},
		{"PUT", "/alb/mode", "", `{"mode":"fixed","algorithm":"BEST","time_scale":-1}`}, {"GET", "/alb/snapshots?since=2026-01-01T00:00:00Z&limit=2", "", ""},
		{"GET", "/alb/decisions?since=boot:1", "", ""}, {"PUT", "/alb/backends/a", "", `{"url":"http://127.0.0.1:1","weight":2}`},
		{"PUT", "/alb/backends/%2e%2e", "", `{"url":"http://u:p@x/?a#b","weight":1e9}`}, {"DELETE", "/alb/backends/a", "", ""}, {"GET", "/alb/backends/b", "", ""},
		{"PATCH", "/alb/status", "Origin: http://evil", "{}{}"}, {"GET", "/metrics", "Authorization: Bearer x", ""}, {"PUT", "/alb/backends/b", "", `{"drain":true,"drain":1}`},
	} {
		f.Add(s[0], s[1], s[2], s[3])
	}
	p, err := New(Config{Rules: filepath.Join(f.TempDir(), "decision-rules.yml"), Admin: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	api := newAdmin(p)
	state := func() string {
		file, _ := os.ReadFile(p.config.Rules)
		b, _ := json.Marshal([]any{file, p.control.active.Load(), p.pool.live()})
		return string(b)
	}
	f.Fuzz(func(t *testing.T, method, target, headers, body string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || strings.HasPrefix(u.Path, "/debug/") || !http1Method(method) {
			return // profiles take their time
		}
		r := &http.Request{Method: method, URL: u, Host: "127.0.0.1", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), RequestURI: target}
		for line := range strings.Lines(headers) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				r.Header.Add(name, strings.TrimSpace(value))
			}
		}
		before := state()
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code < 400 {
			return
		}
		var doc problemDocument
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.Status != w.Code || doc.Detail == "" || w.Code == 500 {
			t.Fatalf("%s %s: %d is no problem document: %q, %v", method, target, w.Code, w.Body, err)
		}
		if after := state(); after != before {
			t.Fatalf("%s %s: refused with %d, and has changed %s to %s", method, target, w.Code, before, after)
		}
	})
}

func http1Method(m string) bool {
	_, err := http.NewRequest(m, "http://x", nil)
	return err == nil
}
