package proxy

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

const askChat = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n"
const switchToChat = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat\r\n\r\n"

// A connection that both ends agree to use for another protocol becomes a tunnel; no byte of it is looked at, none
// before is sent on. RFC 9110 §7.8.
func TestComplianceUpgrade(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "a tunnel both ways", func(t *testing.T) {
			b := rawBackend(t, func(conn *rawConn) {
				conn.keep(conn.head())
				conn.send(switchToChat + "hello\n\x00")
				for {
					l, err := conn.in.ReadString('\n')
					conn.must(err)
					conn.send("you said " + l)
				}
			})
			p := e.start(t, nil, b)
			c := p.connect()
			c.send(askChat)
			a, err := c.in.head()
			require.NoError(t, err)
			require.Equal(t, 101, a.status(), a.head)
			require.Equal(t, "chat", a.get("Upgrade"))
			require.Equal(t, "upgrade", strings.ToLower(a.get("Connection")))
			require.Equal(t, "chat", b.requests()[0].get("Upgrade"))
			require.Equal(t, "upgrade", strings.ToLower(b.requests()[0].get("Connection")))
			c.send("GET /smuggled HTTP/1.1\n")
			want := "hello\n\x00you said GET /smuggled HTTP/1.1\n"
			got := make([]byte, len(want))
			_, err = io.ReadFull(c.in, got)
			require.NoError(t, err)
			require.Equal(t, want, string(got))
			require.EqualValues(t, 1, p.pool.inFlight(), "a tunnel is in flight")
			require.NoError(t, c.Close())
			e.nobodysFailure(t, p)
		})
		check(t, "what is sent too early waits for the agreement", func(t *testing.T) {
			agree := make(chan struct{})
			b := rawBackend(t, func(conn *rawConn) {
				conn.head()
				<-agree
				conn.send(switchToChat)
				_, _ = conn.rest()
			})
			p := e.start(t, nil, b)
			c := p.connect()
			c.send(askChat + "early\n")
			soon(t, "it is asked for", func() bool { return strings.Contains(b.bytes(), "chat") })
			require.NotContains(t, b.bytes(), "early")
			close(agree)
			soon(t, "it comes", func() bool { return strings.Contains(b.bytes(), "early\n") })
			require.NoError(t, c.Close())
		})
		check(t, "refused, it ends the connection", func(t *testing.T) {
			b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"))
			got := e.start(t, nil, b).raw(askChat + smuggled)
			require.Equal(t, 1, strings.Count(got, "HTTP/1.1 "), "%q", got)
			require.Contains(t, got, "\r\nConnection: close\r\n")
			require.True(t, strings.HasSuffix(got, "no"))
			require.NotContains(t, b.bytes(), "smuggled")
		})
		for name, request := range map[string]string{
			"not asked for":              get,
			"asked for another protocol": "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n",
			"asked for without Upgrade":  "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\r\n",
		} {
			check(t, "101 "+name, func(t *testing.T) {
				p := e.start(t, nil, rawBackend(t, func(conn *rawConn) {
					conn.head()
					conn.send(switchToChat)
					_, _ = conn.rest()
				}))
				c := p.connect()
				c.send(request)
				require.Equal(t, 502, c.answer("GET").status())
				p.blamed(t, 1)
			})
		}
		check(t, "Upgrade without Connection is dropped", func(t *testing.T) { // RFC 9110 §7.8: it must be listed
			b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
			e.start(t, nil, b).raw("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: chat\r\nConnection: close\r\n\r\n")
			require.False(t, b.requests()[0].has("Upgrade"), b.requests()[0].head)
		})
		for _, upgrade := range []string{"h2c", "H2C", "h2c, chat", "chat, h2c", "chat\r\nUpgrade: h2c"} {
			check(t, "no tunnel for "+upgrade, func(t *testing.T) { // HTTP/2 in it would pass everything that the proxy checks
				b := rawBackend(t, answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
				e.start(t, nil, b).raw("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + upgrade +
					"\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n")
				require.NotContains(t, strings.ToLower(b.requests()[0].head), "h2c")
				require.False(t, b.requests()[0].has("HTTP2-Settings"))
			})
		}
	})
}

// echoing is a WebSocket server that sends every message back, until the client closes or says "close".
func echoing(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer c.CloseNow()
	c.SetReadLimit(8 << 20)
	for {
		kind, b, err := c.Read(r.Context())
		if err != nil {
			return
		}
		if string(b) == "close" {
			_ = c.Close(4001, "as you wish")
			return
		}
		if c.Write(r.Context(), kind, b) != nil {
			return
		}
	}
}

// WebSocket with a library of others on both ends.
func TestComplianceWebSocket(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		open := func(t *testing.T) (*running, *websocket.Conn, context.Context) {
			p := e.over(t, nil, backend(t, echoing))
			ctx, cancel := context.WithTimeout(t.Context(), longEnough)
			t.Cleanup(cancel)
			c, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http"), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.CloseNow() })
			c.SetReadLimit(8 << 20)
			return p, c, ctx
		}
		check(t, "messages of every size", func(t *testing.T) {
			p, c, ctx := open(t)
			for _, size := range []int{0, 1, 125, 126, 65535, 65536, 4 << 20} {
				sent := make([]byte, size)
				_, _ = rand.Read(sent)
				go func() { _ = c.Write(ctx, websocket.MessageBinary, sent) }() // a large one needs both ways at once
				kind, got, err := c.Read(ctx)
				require.NoError(t, err)
				require.Equal(t, websocket.MessageBinary, kind)
				require.True(t, bytes.Equal(sent, got), "%d bytes: %x", size, sha256.Sum256(got))
			}
			require.NoError(t, c.Close(websocket.StatusNormalClosure, "done"), "the backend answers the close")
			e.nobodysFailure(t, p)
		})
		check(t, "the backend closes", func(t *testing.T) {
			p, c, ctx := open(t)
			require.NoError(t, c.Write(ctx, websocket.MessageText, []byte("close")))
			_, _, err := c.Read(ctx)
			require.EqualValues(t, 4001, websocket.CloseStatus(err), "%v", err)
			e.nobodysFailure(t, p)
		})
		check(t, "the client breaks off", func(t *testing.T) {
			p, c, _ := open(t)
			require.NoError(t, c.CloseNow())
			e.nobodysFailure(t, p)
		})
	})
}
