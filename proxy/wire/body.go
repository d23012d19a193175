package wire

// Body follows one message's body and finds its end. The zero value is a body of no bytes.
type Body struct {
	kind   bodyKind
	left   int64
	chunks chunks
}

type bodyKind uint8

const (
	bodyDone bodyKind = iota
	bodyLength
	bodyChunked
	bodyUntilClose
)

// BodyOf is the body that follows a request's head.
func BodyOf(r *Request) Body {
	switch {
	case r.Chunked:
		return Body{kind: bodyChunked}
	case r.Length > 0:
		return Body{kind: bodyLength, left: r.Length}
	}
	return Body{}
}

// AnswerBody is the body that follows an answer's head; toHEAD: of an answer to HEAD. RFC 9112 §6.3.
func AnswerBody(a *Answer, toHEAD bool) Body {
	switch {
	case toHEAD, a.Status < 200, a.Status == 204, a.Status == 304, a.Length == 0:
		return Body{}
	case a.Chunked:
		return Body{kind: bodyChunked}
	case a.Length > 0:
		return Body{kind: bodyLength, left: a.Length}
	}
	return Body{kind: bodyUntilClose}
}

// Done reports whether the body has ended.
func (b *Body) Done() bool { return b.kind == bodyDone }

// EndsWithConnection reports whether nothing but the connection's end ends the body.
func (b *Body) EndsWithConnection() bool { return b.kind == bodyUntilClose }

// Announced reports whether the head told the body's length.
func (b *Body) Announced() bool { return b.kind == bodyLength }

// Feed walks over the next bytes of the stream and says how many of them belong to the body. Bytes before a
// fault belong to it.
func (b *Body) Feed(p []byte) (n int, fault *Fault) {
	switch b.kind {
	case bodyLength:
		n = int(min(b.left, int64(len(p))))
		if b.left -= int64(n); b.left == 0 {
			b.kind = bodyDone
		}
	case bodyChunked:
		var done bool
		if n, done, fault = b.chunks.feed(p); done {
			b.kind = bodyDone
		}
	case bodyUntilClose:
		n = len(p)
	}
	return n, fault
}
