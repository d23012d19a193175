package proxy

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/steering"
)

// wallSet is an instant read after somebody set the wall clock by so many whole seconds: the monotonic clock goes on. The
// seconds stand in the middle of the first word of a Time that has both readings.
func wallSet(t *testing.T, at time.Time, by time.Duration) time.Time {
	t.Helper()
	set := at
	*(*uint64)(unsafe.Pointer(&set)) += uint64(by/time.Second) << 30
	require.Equal(t, by, set.Round(0).Sub(at.Round(0)), "the wall clock")
	require.Zero(t, set.Sub(at), "the monotonic clock")
	return set
}

// The cooldown is of the time that has passed, not of what the wall clock says.
func TestAWallClockThatIsSetBackHoldsNoSwitchUp(t *testing.T) {
	p, err := New(Config{Admin: "127.0.0.1:0", Rules: filepath.Join(t.TempDir(), "decision-rules.yml"), Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	now := time.Now()
	gate := func(name string) steering.Gate {
		all, _, _ := p.control.decisions.Since(0, 0)
		last := all[len(all)-1]
		require.Equal(t, time.UTC, last.At.Location(), "as the API has it")
		for _, g := range last.Gates {
			if g.Name == name {
				return g
			}
		}
		t.Fatalf("no gate %s", name)
		return steering.Gate{}
	}
	_, err = p.control.setMode(steering.Mode{Reset: true}, 0, now)
	require.NoError(t, err)
	p.control.evaluate(now) // the first window, adopted as it is
	_, err = p.control.reload(reload{body: []byte(ruleText(2, balance.LeastConnections))}, now)
	require.NoError(t, err)
	now = now.Add(time.Second)
	p.control.evaluate(now)
	require.False(t, gate("cooldown").Passed, "the reload changed the algorithm a second ago")
	p.control.evaluate(wallSet(t, now.Add(10*time.Minute), -time.Hour))
	require.True(t, gate("cooldown").Passed, gate("cooldown").Detail)
}
