//go:build linux

package main

import "slices"

// kind is how a scenario is measured.
type kind string

const (
	saturation kind = "saturation" // wrk, as fast as it gets answers
	openLoad   kind = "open load"  // the probe, at a rate
	idleMemory kind = "memory"     // connections that are held and do nothing
)

// smallPath is asked where the answer is to be small.
const smallPath = "/api/v1/items?id=42"

// headers are sent with each request, as a client would.
var headers = []string{
	"User-Agent: k6/1.0 (https://k6.io/)", "Accept: */*", "Accept-Encoding: gzip, deflate", "X-Request-Id: 0123456789abcdef",
}

func headerLines() (s string) {
	for _, h := range headers {
		s += h + "\r\n"
	}
	return s
}

// scenario is one load, and what the proxy has to reach under it.
type scenario struct {
	name        string
	about       string
	kind        kind
	threads     int // of each contender. 1: pinned to core 0, with the load and the backends on core 1; 2: nothing is pinned
	connections int
	path        string
	post        bool // with a body of 16 KiB
	rate        int  // requests per second, of an open load
	goals       []goal
}

// core is where the contender runs, and where everything else does.
func (s scenario) cores() (contender, rest int) {
	if s.threads > 1 {
		return unpinned, unpinned
	}
	return 0, 1
}

// scenarios is all of them, in the order of the table.
var scenarios = []scenario{
	{
		name: "c64", about: "64 connections, 1 KiB, one thread", kind: saturation, threads: 1, connections: 64, path: smallPath,
		goals: slices.Concat(cpuAtMost(0.85, nginx, haproxy), rpsAtLeast(1.05, nginx, haproxy)),
	},
	{
		name: "c512", about: "512 connections, 1 KiB, one thread", kind: saturation, threads: 1, connections: 512, path: smallPath,
		goals: cpuAtMost(0.90, nginx, haproxy),
	},
	{
		name: "64k", about: "64 connections, 64 KiB, one thread", kind: saturation, threads: 1, connections: 64, path: largePath,
		goals: cpuAtMost(0.90, nginx, haproxy),
	},
	{
		name: "post16k", about: "64 connections, POST of 16 KiB, one thread", kind: saturation, threads: 1, connections: 64, path: smallPath, post: true,
		goals: cpuAtMost(0.80, nginx, haproxy),
	},
	{
		name: "c8", about: "8 connections, 1 KiB, one thread", kind: saturation, threads: 1, connections: 8, path: smallPath,
		goals: cpuAtMost(1.00, nginx),
	},
	{
		name: "c64x2", about: "64 connections, 1 KiB, two threads, unpinned", kind: saturation, threads: 2, connections: 64, path: smallPath,
		goals: slices.Concat(cpuAtMost(0.95, nginx, haproxy), rpsAtLeast(1.05, nginx, haproxy)),
	},
	{
		name: "rate2000", about: "2,000 requests per second whatever happens, 1 KiB, one thread", kind: openLoad, threads: 1, rate: 2000, path: smallPath,
		goals: slices.Concat(addedAtMost("p50", p50, 10, nginx), addedAtMost("p99", p99, 0, haproxy), cpuAtMost(1.00, nginx)),
	},
	{
		name: "idle", about: "4,000, then 10,000 idle keep-alive connections", kind: idleMemory, threads: 1, connections: 10_000, path: smallPath,
		goals: []goal{bytesAtMost(1024), heldAtLeast(10_000)},
	},
}

// scenarioNames is what --scenario takes.
func scenarioNames() (names []string) {
	for _, s := range scenarios {
		names = append(names, s.name)
	}
	return names
}
