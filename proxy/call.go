package proxy

import (
	"bytes"
	"net/http"

	"retune/proxy/balance"
	"retune/proxy/traffic"
	"retune/proxy/wire"
)

// call is one request on the fast lane, from its head to the end of its answer. It knows what is to be sent, tried and
// counted; the engines know sockets. Calls are used again: an engine keeps those that have ended.
//
// The request and its answer each go their own way, so that an answer may begin while the request's body is still
// coming:
//
//	request: take ──▶ head and first bytes in out ──▶ body ──▶ body.Done()
//	answer:           heed: an interim head, or the answer's ──▶ answer ──▶ answer.Done()
type call struct {
	// out is the request as it goes to the backend. As long as whole is set it is all of what was taken from the
	// client, and can be sent once more.
	out   []byte
	whole bool
	body  wire.Body // of the request: what is still to come from the client

	key        uint64
	idempotent bool
	toHEAD     bool
	last       bool // the client's connection ends with this call …
	parting    bool // … because the client said so
	chain      []byte
	nominated  [][]byte

	seat     *seat // nil before the pick
	exchange exchange
	open     bool // the exchange has not ended
	tries    int
	failed   bool      // the answer is a failure: 5xx
	started  bool      // a byte of the answer has gone to the client, interim ones too
	answered bool      // the answer's head has come
	answer   wire.Body // of the answer: what is still to come from the backend
	finite   bool      // the answer's head has told its length
	interim  int       // heads before the answer's
	reusable bool      // the connection to the backend can serve another call after this answer
}

// maxInterim bounds the interim answers (1xx) to one request.
const maxInterim = 32

// reset makes the call ready for the next request; it keeps its buffers.
func (c *call) reset() {
	*c = call{out: c.out[:0], chain: c.chain[:0], nominated: c.nominated[:0]}
}

// take reads a request's head, from its request line to its empty line, and makes the one for the backend in out. other:
// it is sound, but for the full lane.
func (c *call) take(head []byte, p *peer, l *lane) (other bool, fault *wire.Fault) {
	var r wire.Request
	var proto, host []byte // as a trusted peer says
	te := false
	kept := 0 // where the lines begin that go on as they are and have not been copied
	for at := 0; ; {
		rest := head[at:]
		i := bytes.IndexByte(rest, '\n')
		if i < 1 || rest[i-1] != '\r' {
			return false, wire.BareLF
		}
		if i == 1 {
			c.out = append(c.out, head[kept:at]...)
			break
		}
		field, value, fault := r.Line(rest[:i-1])
		if fault != nil {
			return false, fault
		}
		line := at
		at += i + 1
		if field.Passes() || field == wire.XForwardedOther && p.trusted {
			continue
		}
		c.out = append(c.out, head[kept:line]...)
		kept = at
		switch field {
		case wire.Connection:
			c.connection(value)
		case wire.XForwardedFor:
			c.chain = append(append(c.chain, value...), ", "...)
		case wire.XForwardedProto:
			proto = value
		case wire.XForwardedHost:
			host = value
		case wire.TE:
			te = te || wire.EqualFold(value, "trailers")
		case wire.TransferEncoding:
			c.out = append(c.out, "Transfer-Encoding: chunked\r\n"...)
		}
	}
	if fault := r.End(); fault != nil {
		return false, fault
	}
	if r.Old || r.Upgrade || r.Target[0] != '/' || string(r.Method) == http.MethodConnect {
		return true, nil
	}
	c.finishHead(&r, p, l, proto, host, te)
	return false, nil
}

// connection heeds one Connection header: what it names is for this hop alone.
func (c *call) connection(value []byte) {
	for e := range wire.Elements(value) {
		switch {
		case wire.EqualFold(e, "close"):
			c.last, c.parting = true, true
		case !wire.EqualFold(e, "keep-alive") && !wire.EqualFold(e, "te"):
			c.nominated = append(c.nominated, e)
		}
	}
}

// finishHead adds where the request came from, as setForwarded does on the full lane, and ends the head.
func (c *call) finishHead(r *wire.Request, p *peer, l *lane, proto, host []byte, te bool) {
	c.out = wire.DropFields(c.out, bytes.IndexByte(c.out, '\n')+1, c.nominated)
	if te {
		c.out = append(c.out, "Connection: TE\r\nTE: trailers\r\n"...)
	}
	c.key = p.key
	c.out = append(c.out, "X-Forwarded-For: "...)
	if p.trusted && len(c.chain) > 0 {
		c.key = balance.Key(findClient(p.addr, []string{string(c.chain[:len(c.chain)-2])}, l.trusted).client)
		c.out = append(c.out, c.chain...)
	}
	c.out = p.addr.AppendTo(c.out)
	if !p.trusted || string(proto) != "https" {
		proto = []byte("http")
	}
	if !p.trusted || len(host) == 0 {
		host = r.Host
	}
	c.out = append(append(c.out, "\r\nX-Forwarded-Proto: "...), proto...)
	c.out = append(append(c.out, "\r\nX-Forwarded-Host: "...), host...)
	c.out = append(c.out, "\r\n\r\n"...)
	c.body, c.whole = wire.BodyOf(r), true
	c.toHEAD = string(r.Method) == http.MethodHead
	c.idempotent = c.toHEAD || idempotent(string(r.Method))
}

// begin starts an attempt at a backend.
func (c *call) begin(s *seat, now int64) {
	c.seat, c.exchange, c.open = s, s.begin(now), true
	c.tries++
}

// end ends the attempt under way, once.
func (c *call) end(now int64, o traffic.Outcome) {
	if !c.open {
		return
	}
	c.open = false
	if c.failed && o == traffic.Success {
		o = traffic.Failure
	}
	c.exchange.end(now, o)
}

// retry looks for a second backend after the first gave no answer, and ends the failed attempt. neverSent: no byte of
// the request has reached it. nil when there is none, or when a second attempt could do twice what was asked for once.
func (c *call) retry(l *lane, now int64, neverSent bool) *seat {
	if c.mayRetry(neverSent) {
		if next := l.choose.next(c.seat, true); next != nil {
			c.end(now, traffic.Retried)
			return next
		}
	}
	c.end(now, traffic.Failure)
	return nil
}

// mayRetry reports whether a second attempt is allowed: the first, of which nothing has come back, can't have done what
// can't be done twice.
func (c *call) mayRetry(neverSent bool) bool {
	return c.tries < 2 && c.whole && !c.started && (neverSent || c.idempotent)
}

// abandoned reports whether a client that sends nothing any more has left, as far as one can tell. It may have ended its
// side alone: where its answer has begun and will have an end the next write tells.
func (c *call) abandoned() bool {
	return !c.body.Done() || !c.finite
}

// expecting reports whether the client waits for the backend to say 100 Continue before it sends the body.
func (c *call) expecting() bool {
	head, body, _ := bytes.Cut(c.out, headEnd)
	return c.whole && len(body) == 0 && c.interim == 0 && bytes.Contains(bytes.ToLower(head), []byte("\r\nexpect:"))
}

// heed reads a head of the backend's answer and appends the client's to dst, when it has to be another; direct: head
// goes as it is. An interim answer leaves answered as it was. More heads than that, or ones that nobody asked for, are
// a fault.
func (c *call) heed(head, dst []byte, now int64, l *lane) (edited []byte, direct bool, fault *wire.Fault) {
	a, fault := wire.ParseAnswer(head)
	if fault != nil {
		return nil, false, fault
	}
	if a.Status < 200 {
		if c.interim++; a.Status == http.StatusSwitchingProtocols || c.interim > maxInterim {
			return nil, false, wire.UnaskedAnswer
		}
		c.started = true
		return wire.AppendAnswer(dst, head, false, ""), !a.Edit, nil
	}
	c.answered, c.started = true, true
	c.exchange.head = now
	c.failed = a.Status >= http.StatusInternalServerError
	c.answer = wire.AnswerBody(&a, c.toHEAD)
	c.finite = c.answer.Announced()
	c.reusable = !a.Last && !c.answer.EndsWithConnection()
	c.last = c.last || c.answer.EndsWithConnection() || !c.body.Done() || l.draining.Load()
	if a.Dated && !a.Edit && !c.last {
		return dst, true, nil
	}
	date := ""
	if !a.Dated {
		date = l.clock.date()
	}
	return wire.AppendAnswer(dst, head, c.last, date), false, nil
}
