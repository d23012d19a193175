package proxy

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// bytes of a request as they go out. What stands behind the pause comes after one, for 100 Continue.
func (p *plan) bytes(r *rand.Rand) (head, rest string) {
	version, extra := "1.1", ""
	if p.old {
		version = "1.0"
	}
	if p.upgrade {
		extra += "Connection: upgrade\r\nUpgrade: torture\r\n"
	}
	if p.expect {
		extra += "Expect: 100-continue\r\n"
	}
	if p.up >= 0 {
		rest = body(p.id, true, p.up)
		if p.chunked && !p.old {
			rest = framed(r, rest)
			extra += "Transfer-Encoding: chunked\r\n"
		} else {
			extra += "Content-Length: " + strconv.Itoa(p.up) + "\r\n"
		}
	}
	return fmt.Sprintf("%s /t/%d HTTP/%s\r\nHost: x\r\n%s%s\r\n", p.method, p.id, version, p.header(), extra), rest
}

// session is one connection of a client: some requests, some of them pipelined, and an end of some kind.
func (w *torture) session(r *rand.Rand) {
	sound := r.IntN(2) == 0 // neither side does harm, so everything has to succeed
	s := &sitting{torture: w, sound: sound, reads: rand.New(rand.NewPCG(r.Uint64(), 0)), writes: rand.New(rand.NewPCG(r.Uint64(), 1))}
	total := 0
	for range 1 + r.IntN(12) {
		p := w.plan(r, sound)
		s.plans = append(s.plans, p)
		total += 300 + max(p.up, 0)
	}
	if last := &s.plans[len(s.plans)-1]; r.IntN(3) == 0 {
		last.old, last.upgrade = r.IntN(2) == 0, r.IntN(2) == 0
	}
	s.ahead = make(chan struct{}, 1+r.IntN(8))
	s.pace = []int{0, 0, 3, 30}[r.IntN(4)]
	s.slow = r.IntN(5) == 0
	if !sound && r.IntN(2) == 0 {
		s.abort, s.abortAt = 1+r.IntN(4), r.IntN(total)
	}
	s.run()
}

// ask is one request alone, which has to succeed.
func (w *torture) ask(r *rand.Rand, p plan) {
	s := &sitting{torture: w, sound: true, plans: []plan{p}, reads: r, writes: rand.New(rand.NewPCG(3, 4)), ahead: make(chan struct{}, 1)}
	s.run()
}

// sitting is a client's connection under way.
type sitting struct {
	*torture
	net.Conn
	plans         []plan
	sound         bool
	ahead         chan struct{} // bounds the requests that no answer has come to
	pace          int
	slow          bool
	abort         int // 1: reset, 2: close, 3: half-close, 4: fall silent
	abortAt       int // after so many bytes
	reads, writes *rand.Rand
	began         time.Time
}

func (s *sitting) run() {
	c, err := net.Dial("tcp", s.p.addr)
	if err != nil {
		s.fail(plan{}, "connecting: %v", err)
		return
	}
	s.Conn, s.began = c, time.Now()
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(longEnough))
	if s.slow {
		_ = c.(*net.TCPConn).SetReadBuffer(32 << 10)
	}
	over := make(chan struct{})
	var g sync.WaitGroup
	g.Go(func() { s.write(over) })
	s.read()
	close(over)
	_ = c.Close()
	g.Wait()
}

var errEnough = errors.New("the client does no more")

// write sends the requests, up to where the session is to be broken off.
func (s *sitting) write(over <-chan struct{}) {
	sent := 0
	for i := range s.plans {
		select {
		case s.ahead <- struct{}{}:
		case <-over:
			return
		}
		head, rest := s.plans[i].bytes(s.writes)
		if s.plans[i].expect {
			if s.part(&sent, head) != nil {
				return
			}
			time.Sleep(time.Duration(s.writes.IntN(10)) * time.Millisecond)
			head = ""
		}
		if s.part(&sent, head+rest) != nil {
			return
		}
	}
}

func (s *sitting) part(sent *int, b string) error {
	if s.abort == 0 || *sent+len(b) < s.abortAt {
		*sent += len(b)
		return inPieces(s.writes, s.pace, b, s.Conn)
	}
	_ = inPieces(s.writes, s.pace, b[:max(0, s.abortAt-*sent)], s.Conn)
	tcp := s.Conn.(*net.TCPConn)
	switch s.abort {
	case 1:
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
	case 2:
		_ = tcp.Close()
	case 3:
		_ = tcp.CloseWrite()
	}
	return errEnough
}

// read takes the answers in the order of the requests, and the end of the connection.
func (s *sitting) read() {
	in := newReader(s.Conn)
	if s.slow {
		in = newReader(&slowly{s.Conn, s.reads})
	}
	for i := range s.plans {
		p := s.plans[i]
		m, err := in.head()
		for err == nil && m.status() < 200 {
			if m.status() == 103 && m.get("X-Id") != strconv.FormatUint(p.id, 10) {
				s.fail(p, "it got another's hint: %q", m.head)
			}
			m, err = in.head()
		}
		if err == nil && m.get("X-Retune-Error") != "" {
			m, err = in.rest(p.method, m)
			s.refused(p, m)
		} else if err == nil {
			m, err = in.rest(p.method, m)
			s.judge(p, m, err)
		}
		if err != nil {
			s.broken(p, m, err)
			return
		}
		if strings.EqualFold(m.get("Connection"), "close") || p.old && !strings.EqualFold(m.get("Connection"), "keep-alive") {
			break
		}
		<-s.ahead
	}
	if s.reads.IntN(40) == 0 { // and waits for the proxy to end it
		if _, err := io.Copy(io.Discard, s.Conn); timedOut(err) {
			s.fail(s.plans[0], "a connection that waits goes on")
		}
	}
}

// judge compares an answer with what the request asked for.
func (s *sitting) judge(p plan, m message, err error) {
	status := map[string]int{"204": 204, "304": 304, "500": 500}[p.kind]
	if status == 0 {
		status = 200
	}
	whole := body(p.id, false, p.n)
	if p.method == "HEAD" || status == 204 || status == 304 {
		whole = ""
	}
	switch {
	case m.get("X-Id") != strconv.FormatUint(p.id, 10):
		s.fail(p, "it got another's answer: %q", m.head)
	case m.status() != status:
		s.fail(p, "status %d", m.status())
	case err == nil && m.body != whole:
		s.fail(p, "%d bytes that are not its answer's; its beginning: %v", len(m.body), strings.HasPrefix(whole, m.body))
	case !strings.HasPrefix(whole, m.body):
		s.fail(p, "%d bytes, broken off, that are not its answer's", len(m.body))
	case err == nil:
		s.done[0].Add(1)
	}
}

// refused judges an answer of the proxy's own.
func (s *sitting) refused(p plan, m message) {
	cause := m.get("X-Retune-Error")
	s.mu.Lock()
	s.odd[cause]++
	s.mu.Unlock()
	s.done[1].Add(1)
	if s.exact && !p.old && !p.upgrade && p.sound() && s.abort == 0 && p.up < 0 && p.idempotent && (cause == "broken_answer" || cause == "malformed_request" || cause == "no_backend") {
		s.fail(p, "the proxy answers: %s%s", m.head, m.body)
	}
}

// broken judges the end of a connection before an answer was whole.
func (s *sitting) broken(p plan, m message, err error) {
	s.done[2].Add(1)
	if timedOut(err) {
		s.fail(p, "nothing ends it: %v", err)
	} else if s.sound && s.exact { // net/http resets connections that pipeline
		s.fail(p, "broken off after %s: %v after %q and %d bytes, pace %d, slow %v", time.Since(s.began), err, m.head, len(m.body), s.pace, s.slow)
	}
}

// slowly reads in pieces, with pauses.
type slowly struct {
	net.Conn
	r *rand.Rand
}

// Read reads a little.
func (c *slowly) Read(b []byte) (int, error) {
	if c.r.IntN(3) == 0 {
		time.Sleep(time.Duration(c.r.IntN(2000)) * time.Microsecond)
	}
	return c.Conn.Read(b[:min(len(b), 1+c.r.IntN(20000))])
}

// inPieces writes b, with a pause after about one in pace pieces of any size; 0: at once.
func inPieces(r *rand.Rand, pace int, b string, to io.Writer) error {
	if pace == 0 {
		_, err := io.WriteString(to, b)
		return err
	}
	for b != "" {
		n := 1 + r.IntN(min(len(b), []int{1, 10, 1000, 50000}[r.IntN(4)]))
		if _, err := io.WriteString(to, b[:n]); err != nil {
			return err
		}
		if b = b[n:]; r.IntN(pace) == 0 {
			time.Sleep(time.Duration(r.IntN(1500)) * time.Microsecond)
		}
	}
	return nil
}

// rest reads what belongs to an answer behind its head.
func (r reader) rest(method string, m message) (message, error) {
	if s := m.status(); method == "HEAD" || s == 204 || s == 304 {
		return m, nil
	}
	return r.body(m)
}
