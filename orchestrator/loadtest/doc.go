// Package loadtest drives a scenario's load against a target and measures what comes back.
//
// A scenario is a Shape (rate over time, events on the timeline, client addresses), run by one of two drivers:
// the user's own k6 program or the built-in one, each a child process that speaks the same stream of JSON
// lines. One reader turns the stream into per-second figures, a histogram and a Result; Result.Invalid says
// why a run is no evidence.
//
//	Runner.Run
//	   │ prepare: scripts and shape into a directory, k6 inspect    (k6.go)
//	   │          the scenario as JSON for retune load              (builtin.go)
//	   ▼
//	command.run ── child process: k6, or Generate in retune load    (process.go)
//	   │              │ stdout, one line per request      │ stderr
//	   │              ▼                                   ▼
//	   │           stream ── point ── measurement       logs        (stream.go, point.go, measure.go, logs.go)
//	   │ four times a second: progress, silence, overrun, flood     (watcher in runner.go)
//	   ▼
//	Revive, then Result and its validity                            (events.go, result.go, health.go, validity.go)
//
// # The load
//
// Open, except for the reference shape: requests start when they are due, however long the ones before them take,
// and a request's latency counts from when it was due (k6 starts it then, or drops it). A closed loop hides a stall:
// its users stall with the target. Both drivers space requests evenly and draw the same clients from the same seed.
// The run opens with a warm-up, which is not measured. A request belongs to the second in which it was due.
//
// # The stream
//
// k6's own JSON output, of which three metrics are read:
//
//	{"metric":"http_req_duration","type":"Point","data":{"time":"…","value":12.3,"tags":{"scenario":"main","status":"200",…}}}
//
// time is the request's end and value its milliseconds. Only scenario "main" is measured, and nothing with the name
// "admin". A dropped_iterations point is a request that could not be started on time. An rt_event point is a marker:
// event "begin" is the start of the measured load, any other becomes a Mark.
//
// # Processes and goroutines
//
// A child has its own process group. It is interrupted when the context ends or the watcher objects, and killed if it
// does not obey; nothing of its group outlives Run. When Retune itself is killed, Linux ends the child (k6 at once,
// retune load after it has revived the backends); elsewhere the broken pipe does. Run owns three goroutines, one that
// starts the child and waits for it and one for each of its pipes, and returns after all of them.
package loadtest
