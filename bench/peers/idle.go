//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// fewer is at how many idle connections memory is read first; it is read again at all of them.
const fewer = 4000

// held is what idle connections cost a contender.
type held struct {
	StartBytes int64   `json:"start_bytes"` // proportional set size before the first connection
	EachFewer  float64 `json:"bytes_each_at_4000"`
	EachAll    float64 `json:"bytes_each_at_10000"`
	Held       int     `json:"held"` // that were open at the end and served another request
}

// idle opens connections to a contender, one request on each, and reads its memory while they do nothing.
func (st *stand) idle(ctx context.Context, c *contender) (h held, err error) {
	conns := make([]*keptConn, st.connections)
	defer func() {
		for _, k := range conns {
			if k != nil {
				k.Close()
			}
		}
	}()
	if h.StartBytes, err = pss(c.pid()); err != nil {
		return h, err
	}
	grown := func(from, to int) (each float64, err error) {
		if err := openIdle(ctx, c.address, conns[from:to]); err != nil {
			return 0, fmt.Errorf("%s, idle connections %d to %d: %w", c.name, from+1, to, err)
		}
		now, err := pss(c.pid())
		return float64(now-h.StartBytes) / float64(to), err
	}
	if h.EachFewer, err = grown(0, fewer); err != nil {
		return h, err
	}
	if h.EachAll, err = grown(fewer, len(conns)); err != nil {
		return h, err
	}
	err = inTurn(ctx, conns, func(k **keptConn) error {
		if (*k).ask() == nil {
			h.Held++
		}
		return nil
	})
	return h, err
}

// openIdle fills conns with connections that have each served a request, and lets the contender rest for a moment.
func openIdle(ctx context.Context, address string, conns []*keptConn) error {
	err := inTurn(ctx, conns, func(k **keptConn) (err error) {
		if *k, err = dialKept(ctx, address); err != nil {
			return err
		}
		return (*k).ask()
	})
	if err == nil && !sleep(ctx, time.Second) {
		err = ctx.Err()
	}
	return err
}

// inTurn works on one connection after the other, so that a contender needs no more than one towards its backends, and
// not on the locked main thread, where each wait would be a change of threads. It ends at the first error.
func inTurn(ctx context.Context, conns []*keptConn, work func(k **keptConn) error) error {
	result := make(chan error)
	go func() {
		var err error
		for i := 0; i < len(conns) && err == nil; i++ {
			err = cmp.Or(ctx.Err(), work(&conns[i]))
		}
		result <- err
	}()
	return <-result
}

// keptConn is a connection that one request after another can be sent on.
type keptConn struct{ net.Conn }

func dialKept(ctx context.Context, address string) (*keptConn, error) {
	c, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return &keptConn{c}, nil
}

// ask sends a request and reads its answer.
func (k *keptConn) ask() error {
	if err := k.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(k, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", smallPath, k.RemoteAddr(), headerLines()); err != nil {
		return err
	}
	a, err := http.ReadResponse(bufio.NewReader(k), nil)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	n, err := io.Copy(io.Discard, a.Body)
	if err == nil && (n != smallBody || a.StatusCode != http.StatusOK) {
		err = fmt.Errorf("%s with %d bytes", a.Status, n)
	}
	return err
}
