package wire

import (
	"io"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/require"
)

// Which answer is due, the request's context says. What else is written, the rest of a body that was answered before
// its end, says nothing, whatever it looks like.
func TestARequestSaysWhichAnswerIsDue(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	for _, rest := range []string{"HEAD / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n"} {
		in, out := io.Pipe()
		c := NewBackend(&script{in: in, piece: 1 << 20}, 1<<10)
		for _, request := range []struct{ method, answer, rest string }{
			{"POST", head + "early", rest}, {"GET", head + "whole", ""}, {"HEAD", head, ""}, {"GET", head + "whole", ""},
		} {
			httptrace.ContextClientTrace(Asking(t.Context(), request.method)).GotConn(httptrace.GotConnInfo{Conn: c})
			go io.WriteString(out, request.answer)
			got := make([]byte, len(request.answer))
			_, err := io.ReadFull(c, got)
			require.NoError(t, err)
			require.Equal(t, request.answer, string(got))
			_, err = io.WriteString(c, request.rest)
			require.NoError(t, err)
		}
		go io.WriteString(out, head)
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, errUnaskedBytes, "nothing is due")
		require.NoError(t, in.Close())
	}
}
