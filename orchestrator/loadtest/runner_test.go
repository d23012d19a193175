package loadtest

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
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

func TestAWallClockThatIsSetIsNoSilence(t *testing.T) {
	s := scenarioFor(fixtureShape())
	w := watcher{patience: usualPatience, scenario: s, stream: &stream{measured: newMeasurement(s.Shape.Duration(), s.Timeout), started: time.Now()}}
	w.stream.read(strings.NewReader(requestLine(0, 5, okMain)))
	now := time.Now()
	for _, by := range []time.Duration{20 * time.Second, 8 * time.Hour, -8 * time.Hour} {
		require.Empty(t, w.watch(wallSet(t, now, by)), "by %s", by)
	}
	require.Equal(t, "it was silent for 15s", w.watch(wallSet(t, now.Add(16*time.Second), -8*time.Hour)))
}
