package steering

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// stream is the demo under simulated time: four backends of 50/150/300/500 ms (lognormal, sigma 0.3) that share a
// request stream by their weights, through Window, Classify and Governor.
type stream struct {
	*Governor
	window   *traffic.Window
	random   *rand.Rand
	now      int64
	slowdown [4]float64
	down     [4]float64 // share of requests that fail
	series   []traffic.Snapshot
}

var (
	ids     = [4]string{"server-1", "server-2", "server-3", "server-4"}
	means   = [4]float64{50, 150, 300, 500}
	weights = [4]int{6, 3, 2, 1}
)

func newStream(scale float64) *stream {
	s := &stream{Governor: New(rules.Default(), "boot"), random: rand.New(rand.NewPCG(1, 2)), slowdown: [4]float64{1, 1, 1, 1}}
	if _, err := s.SetMode(start, Mode{TimeScale: scale}); err != nil {
		panic(err)
	}
	s.window = traffic.NewWindow(0, s.Window(), 6)
	return s
}

// run sends windows full of requests at a rate that goes evenly from one to the other.
func (s *stream) run(windows int, from, to float64) {
	length := s.Window()
	for w := range windows {
		at := func(x float64) float64 { return from + (to-from)*(float64(w)+x)/float64(windows) }
		for t := 0.0; t < length.Seconds(); t += s.random.ExpFloat64() / at(t/length.Seconds()) {
			s.request(s.now + int64(t*1e9))
		}
		s.now += int64(length)
		s.evaluate()
	}
}

func (s *stream) request(now int64) {
	n := s.random.IntN(12)
	b := 0
	for n >= weights[b] {
		n -= weights[b]
		b++
	}
	ms := means[b] * s.slowdown[b] * math.Exp(0.3*s.random.NormFloat64()-0.045)
	outcome := traffic.Success
	if s.random.Float64() < s.down[b] {
		outcome = traffic.Failure
	}
	s.window.Backend(ids[b]).Record(now, time.Duration(ms*1e6), outcome)
}

func (s *stream) evaluate() {
	var live []traffic.Live
	for _, id := range ids {
		live = append(live, traffic.Live{ID: id, Healthy: true})
	}
	at := start.Add(time.Duration(s.now))
	s.series = append(s.series, s.Evaluate(at, s.window.Snapshot(s.now, at, live)).Snapshot)
}

// states counts the states of the last n windows.
func (s *stream) states(n int) map[traffic.State]int {
	count := map[traffic.State]int{}
	for _, x := range s.series[len(s.series)-n:] {
		count[x.State]++
	}
	return count
}

// Every state comes into force, under windows of 10 s and of the quick profile's 2 s.
func TestAllFiveStatesUnderSimulatedTime(t *testing.T) {
	for _, scale := range []float64{1, 0.2} {
		s := newStream(scale)
		settle := int(8 / scale) // also for the switches of the last minute to be a minute old
		s.run(4, 2, 2)
		require.Equal(t, traffic.LowTraffic, s.State())
		s.run(settle, 80, 80)
		require.Equal(t, traffic.HighStable, s.State(), "slow by nature is not overloaded")
		require.Equal(t, balance.WeightedRoundRobin, s.Algorithm())
		s.run(3, 320, 320)
		require.Equal(t, traffic.Spike, s.State())
		require.Equal(t, balance.LeastConnections, s.Algorithm())
		s.run(settle, 80, 80)
		require.Equal(t, traffic.HighStable, s.State())
		s.run(4, 80, 480)
		require.Equal(t, traffic.GradualIncrease, s.State())
		require.Equal(t, balance.IPHash, s.Algorithm())
		s.run(settle, 160, 160)
		s.down[0] = 0.5
		s.run(4, 160, 160)
		require.Equal(t, traffic.OverloadedNode, s.State())
		require.Equal(t, balance.WeightedLeastConnections, s.Algorithm())
		require.Empty(t, Replay(rules.Default(), s.series).Unreached)
	}
}

func TestOverloadInTheDemoAtQuickWindows(t *testing.T) {
	for name, break_ := range map[string]func(*stream){
		"slowed three times": func(s *stream) { s.slowdown[2] = 3 },
		"answering errors":   func(s *stream) { s.down[1] = 0.4 },
		"dead":               func(s *stream) { s.down[0] = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStream(0.2)
			s.run(30, 80, 80)
			require.Zero(t, s.states(30)[traffic.OverloadedNode], "nothing wrong yet")
			break_(s)
			s.run(5, 80, 80)
			require.Equal(t, 5, s.states(5)[traffic.OverloadedNode])
			require.Equal(t, traffic.OverloadedNode, s.State())
		})
	}
}

// Steady Poisson traffic is no reason to switch.
func TestSteadyTrafficHoldsStill(t *testing.T) {
	for _, scale := range []float64{1, 0.2} {
		s := newStream(scale)
		s.run(150, 80, 80)
		r := Replay(rules.Default(), s.series)
		require.Equal(t, 150, r.Windows)
		require.LessOrEqual(t, r.Switches, 1, "the adoption of the first window")
		require.GreaterOrEqual(t, r.States[traffic.HighStable], 145)
	}
}

// PA-21: traffic that goes back and forth over a threshold, window by window, switches nothing; and traffic that
// stays on one, where chance alone names the state, switches far less often than the state changes.
func TestPA21TrafficAtAThresholdDoesNotFlap(t *testing.T) {
	for name, rps := range map[string][]float64{
		"low traffic and stable": {4, 6}, "stable and gradual": {40, 53}, "stable and spike": {40, 85}, "three states": {4, 6, 20},
	} {
		b := newBench()
		b.step(rps[0])
		from := b.Algorithm()
		for range 1000 {
			for _, r := range rps {
				require.Equal(t, from, b.step(r).Algorithm, name)
			}
		}
	}
	b := newBench()
	for range 1000 { // a backend that fails in every other window
		b.step(80)
		b.step(80, failing())
	}
	require.NotEqual(t, traffic.OverloadedNode, b.State())

	dice := rand.New(rand.NewPCG(1, 2))
	b = newBench()
	changes, switches, last := 0, 0, traffic.State("")
	for range 6 * 60 * 24 { // a day
		d := b.step(5 + dice.NormFloat64())
		if d.State != last {
			changes++
		}
		if last = d.State; d.Switched {
			switches++
		}
	}
	t.Logf("%d changes of state, %d switches", changes, switches)
	require.Less(t, switches, changes/20)
}

func BenchmarkReplay(b *testing.B) {
	s := newStream(0.2)
	s.run(1800, 80, 80)
	for b.Loop() {
		Replay(rules.Default(), s.series)
	}
}
