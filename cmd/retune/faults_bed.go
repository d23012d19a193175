package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"retune/orchestrator/target"
	"retune/proxy/balance"
	"retune/proxy/steering"
)

// faultMean is every backend's mean service time.
const faultMean = "100ms"

// faultBed is three demo backends and a victim, all alike, and a proxy for each algorithm over the four.
type faultBed struct {
	victim  *victim
	proxies []*faultProxy
	context context.Context // of the processes
	stop    func()
}

// faultProxy is one proxy.
type faultProxy struct {
	algorithm balance.Algorithm
	addr      string
	target    *target.ALB
}

// newFaultBed starts all of it. exe is the program to start, our own when it is empty.
func newFaultBed(ctx context.Context, exe string, algorithms []balance.Algorithm, log logFlags, stderr io.Writer) (*faultBed, error) {
	addrs, err := freeAddrs(4 + 2*len(algorithms))
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "retune-faults-")
	if err != nil {
		return nil, err
	}
	processes, cancel := context.WithCancel(ctx)
	var kept sync.WaitGroup
	b := &faultBed{victim: newVictim(exe, addrs[3], stderr), context: processes}
	b.stop = func() {
		cancel()
		_ = b.victim.unplug(context.WithoutCancel(ctx)) // a stopped process would not see that it is to end
		b.victim.ended.Wait()
		kept.Wait()
		os.RemoveAll(dir)
	}
	back, rest := addrs[:4], addrs[4:]
	children := []*child{demoChild(back[:3], "--mean", strings.Join([]string{faultMean, faultMean, faultMean}, ","), "--concurrency", "0")}
	for i, a := range algorithms {
		listen, admin := rest[2*i], rest[2*i+1]
		children = append(children, proxyChild(listen, admin, filepath.Join(dir, string(a)+".yml"), log, equalFlags(back)))
		t, err := target.New([]string{"http://" + admin}, "")
		if err != nil {
			return nil, err
		}
		b.proxies = append(b.proxies, &faultProxy{algorithm: a, addr: listen, target: t})
	}
	if err = b.victim.start(processes); err != nil {
		b.stop()
		return nil, err
	}
	for _, c := range children {
		c.exe = exe
		kept.Go(func() { c.keep(processes, log.logger(stderr), stderr) })
		if err := c.ready(ctx); err != nil {
			b.stop()
			return nil, err
		}
	}
	return b, nil
}

// equalFlags are backends of equal weight as the proxy's --backend takes them.
func equalFlags(addrs []string) (all []string) {
	for i, a := range addrs {
		all = append(all, fmt.Sprintf("server-%d=http://%s", i+1, a))
	}
	return all
}

// measure puts every proxy under load, lets the fault happen, and sums up what their clients saw.
func (b *faultBed) measure(ctx context.Context, f fault, t faultTimes) (rows []faultRow, err error) {
	for _, p := range b.proxies {
		if err := p.target.SetMode(ctx, steering.Mode{Mode: steering.Fixed, Algorithm: p.algorithm, Reset: true}); err != nil {
			return nil, err
		}
	}
	loading, cease := context.WithCancel(ctx)
	var under sync.WaitGroup
	defer under.Wait()
	defer cease()
	var loads []*faultLoad
	for _, p := range b.proxies {
		l := newFaultLoad(p.addr)
		loads = append(loads, l)
		under.Go(func() { l.run(loading) })
	}
	wait(ctx, t.calm)
	began := time.Now()
	if err := f.begin(b.victim, b.context); err != nil {
		return nil, err
	}
	wait(ctx, t.hold)
	if err := f.end(b.victim, b.context); err != nil {
		return nil, err
	}
	ended := time.Now()
	for time.Since(ended) < t.after && !allFairAgain(loads, began, ended) {
		wait(ctx, min(time.Second, t.after))
	}
	cease()
	under.Wait()
	for i, l := range loads {
		r := figures(l.answers(), began, ended)
		r.Fault, r.Algorithm = f.name, string(b.proxies[i].algorithm)
		rows = append(rows, r)
	}
	return rows, ctx.Err()
}

func allFairAgain(loads []*faultLoad, began, ended time.Time) bool {
	for _, l := range loads {
		if fairAgain(l.answers(), began, ended) < 0 {
			return false
		}
	}
	return true
}

// wait lets time pass, or ctx end.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
