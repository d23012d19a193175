package advisor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/ruleversions"
)

// wild answers each request with whatever it is given.
type wild struct {
	status int
	header string
	body   []byte
	cut    bool // the connection breaks off before the body's announced end
}

func (x *wild) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", strings.Map(legible, x.header))
	if x.cut {
		w.Header().Set("Content-Length", "1000000")
	}
	w.WriteHeader(200 + (x.status%400+400)%400)
	_, _ = w.Write(x.body)
}

// FuzzExchange is the whole way, from an endpoint's bytes to a rule set or an error.
func FuzzExchange(f *testing.F) {
	x := &wild{}
	server := httptest.NewServer(x)
	defer server.Close()
	for name, c := range whatComesBack() {
		if strings.Contains(name, "MB") || strings.Contains(name, "KB") || name == "a trickle" {
			continue
		}
		r := httptest.NewRecorder()
		func() {
			defer func() { _ = recover() }() // what takes the connection over can't be had from a recorder
			c.answer(r, httptest.NewRequest(http.MethodPost, "/", nil))
		}()
		f.Add(r.Code-200, r.Header().Get("Content-Type"), r.Body.Bytes(), false)
	}
	f.Add(0, "application/json", []byte(completion(good())), true)
	f.Fuzz(func(t *testing.T, status int, header string, body []byte, cut bool) {
		*x = wild{status, header, body, cut}
		o, err := newOpenAI(OpenAI{Key: key, BaseURL: server.URL + "/v1", CallTimeout: 10 * time.Second})
		require.NoError(t, err)
		o.waitAtMost = 0
		defer o.closeIdle()
		a, err := o.Advise(context.Background(), evidence())
		if n := len(a.Calls); n == 0 || n > 1+maxConcessions+(1+maxRepairs)*(1+maxRetries) {
			t.Fatalf("%d calls", n)
		}
		if err == nil {
			usable(t, a)
			return
		}
		if len(err.Error()) > 8000 || strings.Contains(err.Error(), key) || a.Rules.Rules != nil {
			t.Fatalf("%q, rules %v", err, a.Rules)
		}
	})
}

// FuzzReasons looks up the figures of any text: what is marked as unsupported stands in it.
func FuzzReasons(f *testing.F) {
	for _, text := range []string{"p95 in burst 412 ms, 35% lower", "1,204.5 rps −2 points 1e308 ١٢٣ 1m30s", "10–20 ms 5xx 2nd 1.5x", "0.0000001%", "9e999999999"} {
		f.Add(text)
	}
	e := evidence()
	f.Fuzz(func(t *testing.T, text string) {
		for _, figure := range figuresIn(text) {
			if !strings.Contains(plainDigits(text), figure.text) {
				t.Fatalf("%q is not in %q", figure.text, text)
			}
		}
		if text = oneLine(text); len(text) < 300 {
			for _, r := range CheckReasons([]ruleversions.Reason{{Text: text}}, e, e.Champion) {
				for _, figure := range r.Unsupported {
					if !strings.Contains(plainDigits(text), figure) {
						t.Fatalf("%q is marked, and not in %q", figure, text)
					}
				}
			}
		}
	})
}
