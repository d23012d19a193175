package proxy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a backend is told of where a request came from is the proxy's word, or a trusted peer's. Nobody else's gets
// through, in whatever spelling: many backends take X_Forwarded_For for X-Forwarded-For.
func TestComplianceForwarded(t *testing.T) {
	type lines = map[string][]string
	eachEngine(t, func(t *testing.T, e contender) {
		for _, c := range []struct {
			name    string
			trusted bool
			sent    string
			want    lines
		}{
			{"nothing sent", true, "", lines{
				"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"x"}}},
			{"from a trusted peer", true,
				"X-Forwarded-For: 9.9.9.9, 10.0.0.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: front\r\nX-Forwarded-Port: 443\r\n", lines{
					"X-Forwarded-For": {"9.9.9.9, 10.0.0.1, 127.0.0.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"front"}, "X-Forwarded-Port": {"443"}}},
			{"in lower case", true, "x-forwarded-for: 9.9.9.9\r\nx-forwarded-proto: https\r\nx-forwarded-host: front\r\n", lines{
				"X-Forwarded-For": {"9.9.9.9, 127.0.0.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"front"}}},
			{"several lines", true, "X-Forwarded-For: 6.6.6.6\r\nA: b\r\nX-FORWARDED-FOR: 9.9.9.9\r\n", lines{
				"X-Forwarded-For": {"6.6.6.6, 9.9.9.9, 127.0.0.1"}}},
			{"no address", true, "X-Forwarded-For: 9.9.9.9, unknown\r\n", lines{
				"X-Forwarded-For": {"9.9.9.9, unknown, 127.0.0.1"}}},
			{"empty", true, "X-Forwarded-For:\r\nX-Forwarded-Proto:\r\nX-Forwarded-Host:\r\n", lines{
				"X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"x"}}},
			{"no protocol", true, "X-Forwarded-Proto: gopher\r\n", lines{"X-Forwarded-Proto": {"http"}}},
			{"Forwarded from a trusted peer", true, "Forwarded: for=9.9.9.9;proto=https\r\n", lines{
				"Forwarded": nil, "X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}}},
			{"from anybody", false,
				"X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nForwarded: for=9.9.9.9\r\n", lines{
					"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"x"}, "Forwarded": nil}},
			{"from anybody, several lines in odd case", false,
				"x-forwarded-for: 9.9.9.9\r\nX-FORWARDED-FOR: 9.9.9.8\r\nx-Forwarded-proto: https\r\nFORWARDED: for=9.9.9.9\r\n", lines{
					"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "Forwarded": nil}},
			{"from anybody, with underscores", false,
				"X_Forwarded_For: 9.9.9.9\r\nX-Forwarded_Proto: https\r\nx_forwarded_host: evil\r\nX_FORWARDED-FOR: 9.9.9.9\r\nX_Other_Name: kept\r\n", lines{
					"X-Forwarded-For": {"127.0.0.1"}, "X_Forwarded_For": nil, "X-Forwarded_Proto": nil, "x_forwarded_host": nil, "X_FORWARDED-FOR": nil,
					"X_Other_Name": {"kept"}}},
			{"from a trusted peer, with underscores", true, "X_Forwarded_For: 9.9.9.9\r\nX_Forwarded_Proto: https\r\n", lines{
				"X-Forwarded-For": {"127.0.0.1"}, "X_Forwarded_For": nil, "X_Forwarded_Proto": nil}},
			{"its kin from anybody", false, "X-Forwarded-Port: 443\r\nX-Forwarded-Server: evil\r\nX-Forwarded-Prefix: /evil\r\nX-Forwarded: evil\r\n", lines{
				"X-Forwarded-Port": nil, "X-Forwarded-Server": nil, "X-Forwarded-Prefix": nil, "X-Forwarded": nil}},
			{"named by Connection", false, "Connection: X-Forwarded-For, x-forwarded-host\r\nX-Forwarded-For: 9.9.9.9\r\n", lines{
				"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"x"}}},
			{"named by a trusted peer's Connection", true, "Connection: X-Forwarded-For\r\nX-Forwarded-For: 9.9.9.9\r\n", lines{
				"X-Forwarded-Host": {"x"}}},
			{"Via is passed on", true, "Via: 1.0 front\r\n", lines{"Via": {"1.0 front"}}},
		} {
			check(t, c.name, func(t *testing.T) {
				b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
				p := e.start(t, func(cfg *Config) {
					if !c.trusted {
						cfg.Trusted = nil
					}
				}, b)
				conn := p.connect()
				conn.send("GET / HTTP/1.1\r\nHost: x\r\n" + c.sent + "\r\n")
				require.Equal(t, 200, conn.answer("GET").status())
				got := b.requests()[0]
				for name, want := range c.want {
					require.Equal(t, want, got.all(name), "%s in %s", name, got.head)
				}
			})
		}
	})
}
