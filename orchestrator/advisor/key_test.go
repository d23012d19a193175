package advisor

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Servers have been seen to send the key back, in errors and in answers. What is shown of them is cut; the beginning of
// the key must not be left there.
func TestTheKeyIsNeverRecorded(t *testing.T) {
	before := func(n int) string { return strings.Repeat("x", n) + key }
	for name, answer := range map[string]http.HandlerFunc{
		"in an error":                  refuse(400, "no such thing: "+key, ""),
		"in an error's parameter":      refuse(400, "no such thing", key),
		"in an error, across the cut":  refuse(400, before(285), ""),
		"in a 404, across the cut":     refuse(404, before(285), ""),
		"in a body, across the cut":    raw(400, "text/plain", before(maxStored-10)),
		"in a body that is cut, far":   raw(200, "text/plain", strings.Repeat("\x01", maxBody-9)+key),
		"in a body with a NUL in it":   raw(400, "text/plain", key[:9]+"\x00"+key[9:]),
		"in a body that breaks off":    brokenOff("your key is " + key[:15]),
		"in a status line":             statusLine(key),
		"in an answer":                 says("your key is "+key, "stop"),
		"alone":                        refuse(401, key, ""),
		"in a refusal":                 message(map[string]any{"role": "assistant", "refusal": key}, "stop"),
		"in a refusal, across the cut": message(map[string]any{"role": "assistant", "refusal": before(285)}, "stop"),
		"in a name":                    says(spoiled(func(a map[string]any) { a[key] = 1 }), "stop"),
		"in a name, across the cut":    says(strings.Replace(good(), `"summary"`, `"`+before(30)+`":1,"`+before(30)+`":1,"summary"`, 1), "stop"),
		"in a path, across the cut":    says(spoiled(func(a map[string]any) { a["rules"] = map[string]any{before(90): 1} }), "stop"),
		"in a decay, across the cut":   says(withRule(3, "decay", before(30)), "stop"),
		"in a value, across the cut":   says(withThreshold("detection.spike_rate", before(30)), "stop"),
	} {
		a, err := serve(t, answer).ask(t, asIs) // ask looks for the key
		require.Error(t, err, name)
		recorded, failed := json.Marshal(a)
		require.NoError(t, failed)
		for _, text := range []string{string(recorded), err.Error()} {
			require.NotContains(t, text, key[3:], name)
			require.NotContains(t, text, key[:8], name)
		}
	}
	a, err := serve(t, says(withRule(0, "reason", "for "+key), "stop")).ask(t, asIs)
	require.NoError(t, err)
	require.Equal(t, "for [key]", a.Reasons[0].Text)
}

// brokenOff sends a part of a body and hangs up.
func brokenOff(body string) http.HandlerFunc {
	return onTheWire("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + body)
}

func statusLine(reason string) http.HandlerFunc {
	return onTheWire("HTTP/1.1 400 " + reason + "\r\nContent-Length: 0\r\n\r\n")
}

// onTheWire sends text as it is and hangs up.
func onTheWire(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		c, buffer, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = buffer.WriteString(text)
		_ = buffer.Flush()
		_ = c.Close()
	}
}
