package loadtest

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A reader that is stopped, not dead, leaves its pipe open: the load must not go on without it.
func TestAReaderThatStopsReadingIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		failed := make(chan error, 2)
		p := newPoints(w, func(err error) { failed <- err })
		p.gauge("vus", 1)
		time.Sleep(readTime) // it naps
		require.Empty(t, failed)
		time.Sleep(time.Second)
		require.ErrorContains(t, <-failed, "nobody reads")
		require.ErrorIs(t, p.close(), errNobodyReads, "its process does not stay for that")
		r.Close()
	})
}
