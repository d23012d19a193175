package wire

import (
	"bufio"
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		head string
		want Answer
	}{
		"plain":                 {"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 5\r\n\r\n", Answer{Status: 200, Length: 5, Dated: true}},
		"no reason":             {"HTTP/1.1 404\r\n\r\n", Answer{Status: 404, Length: -1}},
		"empty reason":          {"HTTP/1.1 404 \r\n\r\n", Answer{Status: 404, Length: -1}},
		"chunked":               {"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n", Answer{Status: 200, Length: -1, Chunked: true}},
		"keep-alive":            {"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n", Answer{Status: 200, Length: -1, Edit: true}},
		"close":                 {"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", Answer{Status: 200, Length: -1, Edit: true, Last: true}},
		"several":               {"HTTP/1.1 200 OK\r\nConnection: keep-alive, x\r\n\r\n", Answer{Status: 200, Length: -1, Edit: true, Last: true}},
		"old":                   {"HTTP/1.0 200 OK\r\n\r\n", Answer{Status: 200, Length: -1, Edit: true, Last: true, old: true}},
		"interim":               {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", Answer{Status: 103, Length: -1}},
		"forged X-Retune-Error": {"HTTP/1.1 503 No\r\nX-Retune-Error: no_backend\r\n\r\n", Answer{Status: 503, Length: -1, Edit: true}},
	} {
		a, fault := ParseAnswer([]byte(c.head))
		require.Nil(t, fault, name)
		require.Equal(t, c.want, a, name)
	}
	for name, head := range map[string]string{
		"no status":           "HTTP/1.1\r\n\r\n",
		"two digits":          "HTTP/1.1 20 OK\r\n\r\n",
		"four digits":         "HTTP/1.1 2000\r\n\r\n",
		"status below 100":    "HTTP/1.1 099 No\r\n\r\n",
		"other version":       "HTTP/2.0 200 OK\r\n\r\n",
		"no HTTP":             "ICY 200 OK\r\n\r\n",
		"bare line feed":      "HTTP/1.1 200 OK\nA: b\r\n\r\n",
		"fold":                "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
		"space before colon":  "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
		"NUL":                 "HTTP/1.1 200 OK\r\nA: \x00\r\n\r\n",
		"NUL in the reason":   "HTTP/1.1 200 O\x00K\r\n\r\n",
		"two lengths":         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
		"length and chunked":  "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"unknown coding":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"chunked in HTTP/1.0": "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		_, fault := ParseAnswer([]byte(head))
		require.NotNil(t, fault, name)
	}
}

func TestAppendAnswerDropsWhatIsOfOneHop(t *testing.T) {
	const head = "HTTP/1.0 200 OK\r\nConnection: keep-alive, X-Secret, content-length\r\nKeep-Alive: timeout=5\r\n" +
		"x-secret: 1\r\nServer: theirs\r\nContent-Length: 5\r\nX-Retune-Error: forged\r\nProxy-Authenticate: a\r\n\r\n"
	require.Equal(t, "before HTTP/1.1 200 OK\r\nServer: theirs\r\nContent-Length: 5\r\nDate: now\r\nConnection: close\r\n\r\n",
		string(AppendAnswer([]byte("before "), []byte(head), true, "now")))
}

func TestBodiesEndWhereTheyShould(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		toHEAD bool
		stream string
		n      int
		done   bool
	}{
		"length":         {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, "abcd", 3, true},
		"part of it":     {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, "ab", 2, false},
		"chunked":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, "1\r\na\r\n0\r\n\r\nmore", 11, true},
		"until close":    {"HTTP/1.1 200 OK\r\n\r\n", false, "abcd", 4, false},
		"to HEAD":        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, "abc", 0, true},
		"204":            {"HTTP/1.1 204 No\r\nContent-Length: 3\r\n\r\n", false, "abc", 0, true},
		"304":            {"HTTP/1.1 304 No\r\nContent-Length: 3\r\n\r\n", false, "abc", 0, true},
		"length of zero": {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, "abc", 0, true},
	} {
		a, fault := ParseAnswer([]byte(c.answer))
		require.Nil(t, fault, name)
		b := AnswerBody(&a, c.toHEAD)
		n, fault := b.Feed([]byte(c.stream))
		require.Nil(t, fault, name)
		require.Equal(t, c.n, n, name)
		require.Equal(t, c.done, b.Done(), name)
	}
}

// FuzzAnswer: what is let through net/http's client reads in the same way, as it came and as it goes on.
func FuzzAnswer(f *testing.F) {
	f.Add("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive, x\r\nX: y\r\n\r\n", true)
	f.Add("HTTP/1.0 404\r\n\r\n", false)
	f.Add("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\nDate: now\r\n\r\n", false)
	f.Fuzz(func(t *testing.T, head string, last bool) {
		end := strings.Index(head, "\r\n\r\n")
		if end < 0 || end+4 != len(head) {
			return
		}
		a, fault := ParseAnswer([]byte(head))
		if fault != nil {
			return
		}
		out := AppendAnswer(nil, []byte(head), last, "")
		b, fault := ParseAnswer(out)
		if fault != nil {
			t.Fatalf("%q becomes %q, which is refused: %v", head, out, fault)
		}
		if a.Status != b.Status || a.Length != b.Length || a.Chunked != b.Chunked || b.Last != last {
			t.Fatalf("%q becomes %q, which reads otherwise: %+v, %+v", head, out, a, b)
		}
		res, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), &http.Request{Method: "GET"})
		if err != nil {
			t.Fatalf("%q is let through, and net/http can't read it: %v", out, err)
		}
		bodiless := a.Status < 200 || a.Status == 204 || a.Status == 304 // ReadResponse does not know them all as such
		if res.StatusCode != a.Status || !bodiless && (len(res.TransferEncoding) == 1) != a.Chunked {
			t.Fatalf("%q reads otherwise in net/http: %+v", out, res)
		}
	})
}
