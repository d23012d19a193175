package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fault is one way to lose a backend, and to get it back.
type fault struct {
	name       string
	begin, end func(*victim, context.Context) error
}

// faults are the five ways.
func faults() []fault {
	return []fault{
		{"refused (kill -9)", send(syscall.SIGKILL), (*victim).start},
		{"accepted, never answered", send(syscall.SIGSTOP), send(syscall.SIGCONT)},
		{"SYN dropped", (*victim).plug, (*victim).unplug},
		{"hang in mid-body", control(`{"stall":true}`), control(`{"stall":false}`)},
		{"500 in 1 ms", control(`{"error_rate":1,"slowdown":0.01}`), control(`{"error_rate":0,"slowdown":1}`)},
	}
}

// victim is the backend that is lost: a process that can be killed, stopped and told to misbehave.
type victim struct {
	child  *child
	addr   string
	stderr io.Writer
	ended  sync.WaitGroup
	plugs  []net.Conn // fill its queue of connections
}

// victimName is what it calls itself.
const victimName = "victim-1"

func newVictim(exe, addr string, stderr io.Writer) *victim {
	name, _, _ := strings.Cut(victimName, "-")
	return &victim{addr: addr, stderr: stderr, child: &child{
		name: victimName, exe: exe, waitFor: []string{addr},
		args: []string{"backends", "--name", name, "--listen", addr, "--mean", faultMean, "--concurrency", "0"},
	}}
}

// start runs its process, until ctx ends or it is killed.
func (v *victim) start(ctx context.Context) error {
	v.ended.Go(func() { _ = v.child.run(ctx, v.stderr) }) // that it ends is what it is for
	return v.child.ready(ctx)
}

// send sends a signal to the process.
func send(s os.Signal) func(*victim, context.Context) error {
	return func(v *victim, _ context.Context) error {
		if err := v.child.process.Load().Signal(s); err != nil {
			return fmt.Errorf("sending %v to %s: %w", s, v.child.name, err)
		}
		return nil
	}
}

// control tells the process how to misbehave.
func control(body string) func(*victim, context.Context) error {
	return func(v *victim, ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+v.addr+"/control", strings.NewReader(body))
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answered %s to its control %s", v.child.name, res.Status, body)
		}
		return nil
	}
}

const (
	plugWait  = 300 * time.Millisecond // a connection that takes longer on loopback is not taken
	mostPlugs = 1 << 14
)

// plug stops the process and fills its queue of connections, so that the kernel drops each further SYN, as where a
// machine is gone.
func (v *victim) plug(ctx context.Context) error {
	if err := send(syscall.SIGSTOP)(v, ctx); err != nil {
		return err
	}
	d := net.Dialer{Timeout: plugWait}
	for range mostPlugs {
		c, err := d.DialContext(ctx, "tcp", v.addr)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil
		}
		if err != nil {
			return fmt.Errorf("filling the queue of %s after %d connections: %w", v.child.name, len(v.plugs), err)
		}
		v.plugs = append(v.plugs, c)
	}
	return fmt.Errorf("%s took %d connections while it was stopped", v.child.name, mostPlugs)
}

func (v *victim) unplug(ctx context.Context) error {
	for _, c := range v.plugs {
		c.Close()
	}
	v.plugs = nil
	return send(syscall.SIGCONT)(v, ctx)
}
