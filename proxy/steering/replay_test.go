package steering

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// recorded is the snapshots of a series of rates.
func recorded(rps ...float64) []traffic.Snapshot {
	b := newBench()
	var series []traffic.Snapshot
	for _, r := range rps {
		series = append(series, b.step(r).Snapshot)
	}
	return series
}

func TestReplayDecidesAsTheLiveGovernorDid(t *testing.T) {
	rates := []float64{80, 80, 1, 1, 1, 80, 80, 80, 80, 200, 200, 200}
	live := newBench()
	var switches []Decision
	for _, r := range rates {
		if d := live.step(r); d.Switched {
			d.BootID = "replay"
			switches = append(switches, d)
		}
	}
	r := Replay(rules.Default(), recorded(rates...))
	for i := range switches {
		switches[i].Snapshot.Algorithm, r.Decisions[i].Snapshot.Algorithm = "", ""
	}
	require.Equal(t, switches, r.Decisions)
	require.Equal(t, len(switches), r.Switches)
	require.Equal(t, 1, r.Adoptions, "the first window's")
	require.InDelta(t, float64(r.Switches-1)/2, r.SwitchesPerMinute, 1e-9, "12 windows of 10 s")
	require.Equal(t, []traffic.State{traffic.GradualIncrease, traffic.OverloadedNode}, r.Unreached)
}

func TestReplayShowsWhatAProposalWouldDo(t *testing.T) {
	series := recorded(80, 80, 2, 2, 80, 80, 2, 2, 80, 80, 2, 2)
	require.Equal(t, 2, Replay(rules.Default(), series).Switches, "the first window, and the jump from 2 to 80")
	nervous := rules.Default()
	nervous.Switching.SustainedWindows, nervous.Switching.SpikeSustainedWindows, nervous.Switching.Cooldown = 1, 1, 0
	nervous.Switching.MaxSwitchesPerMinute = 60
	require.Equal(t, 8, Replay(nervous, series).Switches, "each step down is one, each step up two: SPIKE, then HIGH_STABLE")
	safe := Replay(rules.Safe(), series)
	require.Zero(t, safe.Switches)
	require.Equal(t, map[balance.Algorithm]int{balance.RoundRobin: 12}, safe.Algorithms)
}

func TestReplayStartsAnewAtAReset(t *testing.T) {
	series := append(recorded(80, 80), recorded(1, 1)...)
	r := Replay(rules.Default(), series)
	require.Equal(t, 2, r.Algorithms[balance.RoundRobin], "adopted at once, as after a reset")
}

func TestReplayScalesTheCooldownWithTheWindows(t *testing.T) {
	series := recorded(80, 80, 1, 1, 1)
	for i := range series {
		series[i].Window = 2 * time.Second
		series[i].At = start.Add(time.Duration(i) * 2 * time.Second)
	}
	r := Replay(rules.Default(), series)
	require.Equal(t, 2, r.Switches, "the cooldown was 2 s then")
	require.InDelta(t, 60./50, r.SwitchesPerMinute, 1e-9, "as in five windows of 10 s, which the rules ask for")
}

func TestReplayOfNothing(t *testing.T) {
	r := Replay(rules.Default(), nil)
	require.Len(t, r.Unreached, 5)
	b, err := json.Marshal(r)
	require.NoError(t, err)
	require.Contains(t, string(b), `"decisions":[]`)
}

func TestRing(t *testing.T) {
	r := NewRing[int](3)
	got, next, lost := r.Since(0, 0)
	require.Equal(t, []int{}, got)
	require.Zero(t, next)
	require.Zero(t, lost)
	for i := range 5 {
		r.Append(i * 10)
	}
	got, next, lost = r.Since(0, 0)
	require.Equal(t, []int{20, 30, 40}, got)
	require.EqualValues(t, 5, next)
	require.EqualValues(t, 2, lost)
	got, next, lost = r.Since(3, 1)
	require.Equal(t, []int{30}, got)
	require.EqualValues(t, 4, next)
	require.Zero(t, lost)
	got, _, _ = r.Since(5, 0)
	require.Empty(t, got)
	got, _, lost = r.Since(99, 0)
	require.Len(t, got, 3, "a cursor of an earlier boot starts from the beginning")
	require.EqualValues(t, 2, lost)
	require.EqualValues(t, 3, r.Seek(func(v int) bool { return v >= 25 }))
	require.EqualValues(t, 5, r.Seek(func(int) bool { return false }))
	require.EqualValues(t, 2, r.Seek(func(int) bool { return true }))
}

func TestRingForManyReadersMissesNothing(t *testing.T) {
	r := NewRing[int](10_000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var all []int
			for cursor := uint64(0); len(all) < 5000; {
				got, next, lost := r.Since(cursor, 7)
				if lost != 0 {
					t.Error("lost entries of a ring that is large enough")
					return
				}
				all, cursor = append(all, got...), next
			}
			for i, v := range all {
				if v != i {
					t.Errorf("entry %d is %d", i, v)
					return
				}
			}
		})
	}
	for i := range 5000 {
		r.Append(i)
	}
	wg.Wait()
}
