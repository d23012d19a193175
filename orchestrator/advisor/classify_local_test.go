package advisor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/traffic"
)

// rpsSeries is windows of two seconds with these rates, and two backends that are always as fast as usual.
func rpsSeries(rates ...float64) (all []traffic.Snapshot) {
	for i, r := range rates {
		half := traffic.BackendSnapshot{ID: "server-1", Requests: uint64(r), AvgLatencyMS: 50}
		other := half
		other.ID, other.AvgLatencyMS = "server-2", 150
		all = append(all, traffic.Snapshot{
			At: time.Unix(int64(2*i), 0), Window: 2 * time.Second, Requests: uint64(2 * r), RPS: r,
			Backends: []traffic.BackendSnapshot{half, other},
		})
	}
	return all
}

// letters is states by their initials.
func letters(states []traffic.State) string {
	var b strings.Builder
	for _, s := range states {
		b.WriteByte(s[0])
	}
	return b.String()
}

func TestTheLocalClassifierLooksAheadAndBack(t *testing.T) {
	for name, c := range map[string]struct {
		rates []float64
		want  string
	}{
		"steady":                     {[]float64{80, 82, 79, 80, 81, 80}, "HHHHHH"},
		"restless but steady":        {[]float64{80, 92, 75, 88, 78, 90}, "HHHHHH"},
		"a burst across windows":     {[]float64{7, 16, 66, 120, 120, 55, 30, 30}, "LSSSSHHH"},
		"a burst between windows":    {[]float64{30, 30, 120, 120, 120, 120}, "HHSSHH"},
		"a ramp":                     {[]float64{24, 36, 60, 84, 108, 120, 120}, "HGGGGGH"},
		"a slow ramp":                {[]float64{60, 64, 68, 72, 76, 80, 84, 88, 92}, "HGGGGGGGG"},
		"a rise too small":           {[]float64{80, 83, 86, 89, 80}, "HHHHH"},
		"a few requests more":        {[]float64{4, 6, 4, 5, 7, 4}, "HHHHHH"},
		"from nothing":               {[]float64{0, 0, 60, 60, 60}, "LLSSH"},
		"a jump and back":            {[]float64{40, 160, 40, 40}, "HSHH"},
		"one window":                 {[]float64{80}, "H"},
		"nothing at all":             {nil, ""},
		"idle":                       {[]float64{0, 0, 0}, "HHH"},
		"a fall":                     {[]float64{120, 120, 40, 40}, "HHHH"},
		"low against its own height": {[]float64{100, 1000, 1000, 50}, "HSSL"},
	} {
		require.Equal(t, c.want, letters(LocalLabels([][]traffic.Snapshot{rpsSeries(c.rates...)}).States[0]), name)
	}
}

func TestTheLocalClassifierKnowsAnOverloadedNodeByTheOthers(t *testing.T) {
	slow := func(s []traffic.Snapshot, from, to int, times float64, ids ...string) []traffic.Snapshot {
		for i := from; i <= to; i++ {
			for k := range s[i].Backends {
				for _, id := range ids {
					if s[i].Backends[k].ID == id {
						s[i].Backends[k].AvgLatencyMS *= times
					}
				}
			}
		}
		return s
	}
	steady := func() []traffic.Snapshot { return rpsSeries(80, 80, 80, 80, 80, 80, 80, 80) }
	failing := steady()
	failing[3].Backends[0].Errors, failing[3].Backends[0].ErrorRate = 8, 0.1
	few := steady()
	few[3].Backends[0].Requests, few[3].Backends[0].AvgLatencyMS = 9, 900
	for name, c := range map[string]struct {
		series []traffic.Snapshot
		want   string
	}{
		"one is slow":           {slow(steady(), 2, 4, 3.6, "server-2"), "HHOOOHHH"},
		"one is slow for most":  {slow(steady(), 2, 6, 3.6, "server-2"), "HHOOOOOH"},
		"both are slow":         {slow(steady(), 2, 4, 3.6, "server-1", "server-2"), "HHHHHHHH"},
		"a little slower":       {slow(steady(), 2, 4, 1.5, "server-2"), "HHHHHHHH"},
		"always slow":           {slow(steady(), 0, 7, 3.6, "server-2"), "HHHHHHHH"},
		"it fails requests":     {failing, "HHHOHHHH"},
		"too few to say":        {few, "HHHHHHHH"},
		"slow in a burst":       {slow(rpsSeries(30, 30, 120, 120, 120, 120), 3, 3, 3, "server-2"), "HHSOHH"},
		"nobody to compare it":  {slow(withoutSecond(steady()), 2, 4, 3, "server-1"), "HHOOOHHH"},
		"no backend is known":   {withoutBackends(steady()), "HHHHHHHH"},
		"a backend comes later": {slow(later(steady()), 5, 6, 4, "server-2"), "HHHHHOOH"},
	} {
		require.Equal(t, c.want, letters(LocalLabels([][]traffic.Snapshot{c.series}).States[0]), name)
	}
}

func withoutSecond(s []traffic.Snapshot) []traffic.Snapshot {
	for i := range s {
		s[i].Backends = s[i].Backends[:1]
	}
	return s
}

func withoutBackends(s []traffic.Snapshot) []traffic.Snapshot {
	for i := range s {
		s[i].Backends = nil
	}
	return s
}

func later(s []traffic.Snapshot) []traffic.Snapshot {
	for i := range s[:3] {
		s[i].Backends = s[i].Backends[:1]
	}
	return s
}

// Labels rest on the figures alone: what the proxy named the windows is not looked at.
func TestTheLocalClassifierIsNotTheProxys(t *testing.T) {
	series := rpsSeries(30, 30, 120, 120, 120, 120)
	want := LocalLabels([][]traffic.Snapshot{series})
	for i := range series {
		series[i].State = traffic.OverloadedNode
	}
	require.Equal(t, want, LocalLabels([][]traffic.Snapshot{series}))
}
