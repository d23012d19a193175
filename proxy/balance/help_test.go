package balance

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// set makes n backends, server-0 and so on, of weight 1.
func set(n int) []*Backend {
	out := make([]*Backend, n)
	for i := range out {
		out[i] = NewBackend(fmt.Sprintf("server-%d", i), nil, 1)
	}
	return out
}

// warmSet is a set with answers behind it and requests in flight, each backend different.
func warmSet(n int) []*Backend {
	out := set(n)
	for i, b := range out {
		b.SetWeight(1 + i%7)
		for range 3 {
			b.End(b.Begin(), Now(), time.Duration(10+i%50)*time.Millisecond, Success)
		}
		for range i % 5 {
			b.Begin()
		}
	}
	return out
}

func weighted(weights ...int) []*Backend {
	out := set(len(weights))
	for i, w := range weights {
		out[i].SetWeight(w)
	}
	return out
}

func pickerOf(t testing.TB, a Algorithm, backends []*Backend, o Options) Picker {
	t.Helper()
	p, err := New(a, backends, o)
	require.NoError(t, err)
	return p
}

// shares counts n picks with different keys, without Begin: no pick changes what the next one sees.
func shares(p Picker, n int) map[string]int {
	out := map[string]int{}
	for i := range n {
		out[p.Pick(uint64(i)).ID()]++
	}
	return out
}
