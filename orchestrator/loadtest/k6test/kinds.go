package k6test

import (
	"strings"
	"time"
)

// Kinds are all the ways in which a run can be no evidence. How k6 is ended, and by what exit codes, the drivers' own
// tests try one by one.
var Kinds = []Kind{
	{Name: "an empty script", Want: "has no scenario called main", Refused: true, inspect: `echo '{"scenarios":{}}'`, write: run.nothing},
	{Name: "a script that k6 refuses", Want: "no exported functions in script", Refused: true,
		inspect: `echo 'no exported functions in script' >&2; exit 107`, write: run.nothing},
	{Name: "nothing was sent, exit code 0", Want: "Only 0 requests were measured", write: run.nothing},
	{Name: "a summary without samples", Want: "Only 0 requests were measured", write: run.withoutSamples},
	{Name: "a threshold on a metric with no samples", Want: "Only 0 requests were measured", write: run.withoutSamples, end: "exit 99"},
	{Name: "a threshold on a metric that is none", Want: "exited with code 104", write: run.nothing, end: "exit 104"},
	{Name: "a script that throws", Want: "exited with code 107", write: run.all, end: "exit 107"},
	{Name: "a driver that is killed", Want: "ended by a signal", write: run.all, end: "kill -9 $$"},
	{Name: "every response a 500", Want: "Every request failed (500: ", Failing: true, write: each(func(l string) string {
		return strings.NewReplacer(`"true"`, `"false"`, `"200"`, `"500"`).Replace(l)
	})},
	{Name: "every connection refused", Want: "No request has a latency", write: run.refused},
	{Name: "fewer than 100 requests", Want: "Only 99 requests were measured", write: func(r run) []string { return r.all()[:measured+99] }},
	{Name: "94% of the planned requests", Want: "at least 95% are needed", write: some(6, func(string) string { return "" })},
	{Name: "2% dropped", Want: "were dropped (2.", write: some(2, func(l string) string {
		return strings.Replace(valued("1")(l), "http_req_duration", "dropped_iterations", 1)
	})},
	{Name: "the driver at its limit", Want: "of a core; beyond 80%", Costly: true, write: run.all, end: burn},
	{Name: "durations that are no number", Want: "could not be read", write: some(4, valued("NaN"))},
	{Name: "endless durations", Want: "could not be read", write: some(4, valued("Infinity"))},
	{Name: "negative durations", Want: "could not be read", write: some(4, valued("-12.5"))},
	{Name: "a clock that is set back", Want: "was set back during the run", write: run.setBack},
	{Name: "a stream that is cut off in a line", Want: "at least 95% are needed", write: run.cutOff},
	{Name: "samples of the warm-up alone", Want: "Only 0 requests were measured", write: run.warm},
	{Name: "samples of another scenario", Want: "Only 0 requests were measured", write: each(func(l string) string {
		return strings.Replace(l, `"main"`, `"default"`, 1)
	})},
}

func (run) nothing() []string { return nil }

// withoutSamples is a stream of metrics that say nothing of a request's latency.
func (r run) withoutSamples() []string {
	return []string{
		`{"type":"Metric","data":{"name":"http_req_duration","type":"trend","contains":"time","thresholds":["p(95)<200"],"submetrics":null},"metric":"http_req_duration"}` + "\n",
		line("iterations", time.Second, "1", `"scenario":"main"`), line("vus", time.Second, "3", ""),
		line("http_reqs", time.Second, "1", answered), line("data_received", time.Second, "812", `"scenario":"main"`),
	}
}

// refused is what comes of a target that nobody listens on: k6 reports no duration.
func (r run) refused() []string {
	return each(func(l string) string {
		l = valued("0")(l)
		return strings.Replace(l, answered, `"error_code":"1212","expected_response":"false","name":"app","scenario":"main","status":"0"`, 1)
	})(r)
}

// setBack is a run whose clock jumps back by five seconds half-way.
func (r run) setBack() []string {
	lines := r.all()[:measured]
	n := r.shape.Planned()
	for i := range n {
		due := r.due(i, n)
		if i >= n/2 {
			due -= 5 * time.Second
		}
		lines = append(lines, request(due, r.slowest, answered))
	}
	return lines
}

// cutOff ends in the middle of a line, well before the run's end.
func (r run) cutOff() []string {
	lines := r.all()
	lines = lines[:len(lines)*3/5]
	last := lines[len(lines)-1]
	lines[len(lines)-1] = last[:len(last)/2]
	return lines
}

// each changes the line of every measured request.
func each(change func(line string) string) func(run) []string { return some(100, change) }

// some changes the lines of a percentage of the measured requests, evenly spread.
func some(percent int, change func(line string) string) func(run) []string {
	return func(r run) []string {
		lines := r.all()
		for i, l := range lines[measured:] {
			if i%100 < percent {
				lines[measured+i] = change(l)
			}
		}
		return lines
	}
}

// valued gives a line another value.
func valued(value string) func(line string) string {
	return func(l string) string {
		before, rest, _ := strings.Cut(l, `"value":`)
		_, after, _ := strings.Cut(rest, ",")
		return before + `"value":` + value + "," + after
	}
}

// burn takes CPU until it has had nine tenths of a core since it began, for a second at least. On a machine that is too busy
// with other things to give it that much it gives up after ten.
const burn = `
spin() { i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; }
began=$(date +%s%N)
ms=0
while [ $ms -lt 10000 ]; do
	echo '{"type":"Metric","data":{"name":"alive"}}'
	for n in 1 2 3 4 5 6 7 8; do spin & done
	wait
	times > times
	ms=$(( ($(date +%s%N) - began) / 1000000 ))
	awk -F '[ms ]' -v ms=$ms 'NR == 2 { cpu = 60*$1 + $2 + 60*$4 + $5; exit !(ms > 1000 && 1000*cpu > 0.9*ms) }' times && exit 0
done`
