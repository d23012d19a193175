package proxy

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
)

// serve is one connection to a backend of the torture: it does what each request's plan says.
func (w *torture) serve(c *rawConn) {
	r := rand.New(rand.NewPCG(w.seed, uint64(c.number)<<20))
	for {
		idle := time.Time{}
		if r.IntN(4) == 0 { // it ends idle connections early
			idle = time.Now().Add(time.Duration(r.IntN(20)) * time.Millisecond)
		}
		_ = c.SetReadDeadline(idle)
		_, err := c.in.Peek(1)
		c.must(err)
		_ = c.SetReadDeadline(time.Now().Add(longEnough))
		m, err := c.in.head()
		c.must(err)
		p, err := planOf(m)
		if err != nil {
			w.fail(p, "a backend got another request than was sent: %v: %q", err, m.head)
			return
		}
		w.came(p, m)
		if !w.answer(c, r, p, m) {
			return
		}
	}
}

// came counts a request that must not come twice.
func (w *torture) came(p plan, m message) {
	_, target, _ := strings.Cut(m.start(), " ")
	if !strings.HasPrefix(target, fmt.Sprintf("/t/%d ", p.id)) {
		w.fail(p, "its head is mixed with another's: %q", m.head)
	}
	if !p.idempotent {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.seen[p.id]++
	}
}

// answer reads a request's body and answers it. It returns whether the connection stays.
func (w *torture) answer(c *rawConn, r *rand.Rand, p plan, m message) bool {
	if m.has("Expect") && r.IntN(2) == 0 {
		c.send("HTTP/1.1 100 Continue\r\n\r\n")
	}
	for range p.interim {
		c.send(fmt.Sprintf("HTTP/1.1 103 Early Hints\r\nX-Id: %d\r\n\r\n", p.id))
	}
	if p.kind == "reset0" && r.IntN(2) == 0 {
		c.reset()
		return false
	}
	if p.kind != "early" && p.up >= 0 {
		b, err := c.in.body(m)
		c.must(err)
		if b.body != body(p.id, true, p.up) {
			w.fail(p, "a backend got a wrong body of %d bytes", len(b.body))
		}
	}
	return w.send(c, r, p)
}

// send sends the answer.
func (w *torture) send(c *rawConn, r *rand.Rand, p plan) bool {
	b := body(p.id, false, p.n)
	head := fmt.Sprintf("HTTP/1.1 200 OK\r\nX-Id: %d\r\n", p.id)
	length := head + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(b))
	if p.method == "HEAD" {
		b = ""
	}
	whole := length + b
	switch p.kind {
	case "chunked":
		whole = head + "Transfer-Encoding: chunked\r\n\r\n"
		if p.method != "HEAD" {
			whole += framed(r, b)
		}
	case "204", "304":
		whole = strings.Replace(head, "200 OK", p.kind+" Nothing", 1) + "\r\n"
	case "500":
		whole = strings.Replace(whole, "200 OK", "500 Internal Server Error", 1)
	case "close":
		whole = head + "\r\n" + b
	case "old":
		whole = strings.Replace(whole, "HTTP/1.1", "HTTP/1.0", 1)
	case "bye":
		whole = strings.Replace(whole, "\r\n", "\r\nConnection: close\r\n", 1)
	case "extra":
		whole += "HTTP/1.1 200 OK\r\nX-Id: 0\r\nContent-Length: 6\r\n\r\nforged"
	case "reset0", "cut0":
		whole = ""
	case "reset1", "cut1":
		whole = whole[:1+r.IntN(len(head)-1)]
	case "reset2", "cut2", "stall":
		whole = whole[:len(length)+r.IntN(len(b)+1)]
	case "garbage":
		whole = string(noise[:1+r.IntN(1000)])
	}
	if p.kind == "hang" {
		_, _ = c.rest()
		return false
	}
	c.must(inPieces(r, p.pace, whole, c.Conn))
	switch p.kind {
	case "reset0", "reset1", "reset2":
		c.reset()
		return false
	case "stall":
		_, _ = c.rest()
		return false
	case "close", "old", "bye", "leave", "early", "cut0", "cut1", "cut2", "garbage":
		return false
	}
	return true
}

// counted is a counter of one backend, under all algorithms.
func (w *torture) counted(name, backend string) (sum float64) {
	families, err := w.p.meters.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() != namespace+"_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "backend" && l.GetValue() == backend {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}
