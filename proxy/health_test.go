package proxy

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/rules"
	"retune/proxy/traffic"
)

// ward is a pool under virtual time, whose active checks find what the test says.
type ward struct {
	*pool
	t    *testing.T
	sick map[string]*atomic.Bool
	mute atomic.Bool // a sick one doesn't even answer its checks

	checks atomic.Int64 // of all
}

// inWard runs a test over backends with these ids in a bubble of virtual time, with the checks running.
func inWard(t *testing.T, ids []string, test func(w *ward)) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{pool: newPool(traffic.NewWindow(0, 10*time.Second, 6), HealthConfig{}.withDefaults(), newMeters(),
			slog.New(slog.DiscardHandler)), t: t, sick: map[string]*atomic.Bool{}}
		for _, id := range ids {
			w.sick[id] = new(atomic.Bool)
			w.add(BackendConfig{ID: id, URL: &url.URL{Scheme: "http", Host: id}, Weight: 1})
		}
		w.probe = func(ctx context.Context, s *server) error {
			w.checks.Add(1)
			if sick := w.sick[s.ID()]; sick == nil || !sick.Load() {
				return nil
			}
			if w.mute.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return errSick
		}
		w.use(balance.LeastConnections, rules.Params{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.run(ctx); close(ended) }()
		test(w)
		cancel()
		<-ended
	})
}

// ends lets a request of a backend end, if any go there.
func (w *ward) ends(id string, o traffic.Outcome) {
	if s := w.route.Load().seats[w.server(id).Backend]; s != nil {
		x := s.begin(balance.Now())
		x.end(balance.Now(), o)
	}
}

// judge changes how backends are judged.
func (w *ward) judge(change func(*HealthConfig)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.config)
}

// after lets time pass.
func (w *ward) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// fail reports n failed requests of a backend, as exchanges do.
func (w *ward) fail(id string, n int) {
	for range n {
		w.failed(w.server(id), balance.Now())
	}
}

func (w *ward) server(id string) *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.findLocked(id)
}

func (w *ward) health(id string) string {
	for _, b := range w.status(time.Now()) {
		if b.ID == id {
			return b.Health
		}
	}
	return "gone"
}

// routed is the ids that requests go to now.
func (w *ward) routed() (ids []string) {
	for _, b := range w.route.Load().available {
		ids = append(ids, b.ID())
	}
	return ids
}

func TestActiveChecksTakeABackendOutAndBringItBack(t *testing.T) {
	inWard(t, []string{"a", "b"}, func(w *ward) {
		w.after(time.Minute)
		require.Equal(t, []string{"a", "b"}, w.routed())
		w.sick["a"].Store(true)
		w.after(3 * time.Second) // at most two checks
		require.Equal(t, "healthy", w.health("a"))
		w.after(4 * time.Second)
		require.Equal(t, "unhealthy", w.health("a"))
		require.Equal(t, []string{"b"}, w.routed())
		w.sick["a"].Store(false)
		w.after(5 * time.Second)
		require.Equal(t, "slow_start", w.health("a"))
		require.Equal(t, []string{"a", "b"}, w.routed())
		w.after(11 * time.Second)
		require.Equal(t, "healthy", w.health("a"))
	})
}

func TestOneFailedCheckIsForgotten(t *testing.T) {
	inWard(t, []string{"a", "b"}, func(w *ward) {
		for range 10 {
			w.sick["a"].Store(true)
			w.after(2 * time.Second)
			w.sick["a"].Store(false)
			w.after(2 * time.Second)
			require.Equal(t, "healthy", w.health("a"))
		}
	})
}

func TestEjectionsGrowAndDoingWellForgivesThem(t *testing.T) {
	inWard(t, []string{"a", "b"}, func(w *ward) {
		w.fail("a", 4)
		require.Equal(t, "healthy", w.health("a"))
		for _, length := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
			w.fail("a", 5)
			require.Equal(t, []string{"b"}, w.routed())
			w.after(length - time.Second)
			require.Equal(t, "ejected", w.health("a"), length)
			w.after(1500 * time.Millisecond)
			require.Equal(t, "slow_start", w.health("a"), length)
		}
		w.after(2 * time.Minute)
		w.fail("a", 5)
		w.after(5500 * time.Millisecond)
		require.Equal(t, "slow_start", w.health("a"), "the first length again")
	})
}

func TestFailuresHaveToBeConsecutive(t *testing.T) {
	inWard(t, []string{"a", "b"}, func(w *ward) {
		s := w.route.Load().seats[w.server("a").Backend]
		for range 20 {
			for _, o := range []traffic.Outcome{traffic.Failure, traffic.Failure, traffic.Failure, traffic.Failure, traffic.Success} {
				s.count(s.Begin(), balance.Now(), 1, 1, o)
			}
		}
		require.Equal(t, "healthy", w.health("a"))
	})
}

// PA-6: a backend that comes back is neither flooded nor starved: it begins with a tenth of its share, whatever
// the others do, and has all of it ten seconds later.
func TestPA06SlowStart(t *testing.T) {
	inWard(t, []string{"a", "b", "c"}, func(w *ward) {
		require.Equal(t, 1.0, w.server("a").Warmth(), "not at the proxy's start")
		w.fail("a", 5)
		w.after(5250 * time.Millisecond)
		require.InDelta(t, coldest, w.server("a").Warmth(), 0.03)
		w.after(5 * time.Second)
		_, err := w.put("d", exactly(BackendConfig{ID: "d", URL: &url.URL{Scheme: "http", Host: "d"}, Weight: 1}, false), time.Now())
		require.NoError(t, err)
		require.InDelta(t, coldest, w.server("d").Warmth(), 0.03, "one that joins is cold as well")
		require.InDelta(t, 0.55, w.server("a").Warmth(), 0.05, "and leaves the other's alone")
		w.after(5500 * time.Millisecond)
		require.Equal(t, 1.0, w.server("a").Warmth())
		w.after(5 * time.Second)
		require.Equal(t, "healthy", w.health("d"))
	})
}

// PA-12: ejections never take out more than half, nor the last one.
func TestPA12EjectionsLeaveHalf(t *testing.T) {
	for n, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 5: 3} {
		ids := []string{"a", "b", "c", "d", "e"}[:n]
		inWard(t, ids, func(w *ward) {
			for _, id := range ids {
				w.fail(id, 50)
			}
			require.Len(t, w.routed(), want, "of %d", n)
		})
	}
}

// PA-12: when the active check finds nobody healthy requests go to all, and never to nobody.
func TestPA12NobodyHealthyMeansAll(t *testing.T) {
	inWard(t, []string{"a", "b", "c"}, func(w *ward) {
		_, err := w.put("c", exactly(BackendConfig{ID: "c", URL: w.server("c").URL(), Weight: 1}, true), time.Now())
		require.NoError(t, err)
		w.sick["a"].Store(true)
		w.sick["b"].Store(true)
		w.after(10 * time.Second)
		require.Equal(t, []string{"a", "b"}, w.routed(), "all that aren't drained")
		require.False(t, w.ready())
		w.sick["b"].Store(false)
		w.after(10 * time.Second)
		require.Equal(t, []string{"b"}, w.routed())
		require.True(t, w.ready())
	})
}

// PA-13: a switch of the algorithm, a change of weight and a reload keep health, ejections and what backends
// have learnt.
func TestPA13ChangesKeepWhatIsKnown(t *testing.T) {
	inWard(t, []string{"a", "b", "c", "d"}, func(w *ward) {
		w.sick["a"].Store(true)
		w.fail("b", 5)
		w.after(6 * time.Second)
		w.fail("b", 5)
		begun := w.route.Load().seats[w.server("c").Backend].begin(1)
		for _, a := range balance.Algorithms() {
			w.use(a, rules.Params{})
			require.Equal(t, []string{"c", "d"}, w.routed(), a)
			require.EqualValues(t, 1, w.server("c").InFlight())
		}
		_, err := w.put("d", exactly(BackendConfig{ID: "d", URL: w.server("d").URL(), Weight: 7}, false), time.Now())
		require.NoError(t, err)
		require.Equal(t, []string{"c", "d"}, w.routed())
		begun.end(2, traffic.Success)
		require.Zero(t, w.server("c").InFlight(), "a request ends on the route on which it began")
	})
}

// PA-20: nobody is judged by a handful of requests: four failures in a row are no ejection, however long ago the last
// success was.
func TestPA20FewFailuresEjectNobody(t *testing.T) {
	inWard(t, []string{"a", "b", "c", "d"}, func(w *ward) {
		for range 24 { // an idle backend: four requests, all of which fail, and none for a quarter of an hour
			w.fail("a", 1)
			w.after(15 * time.Minute)
			w.fail("a", 3)
			w.ends("a", traffic.Success)
			require.Len(t, w.routed(), 4)
		}
	})
}

// PA-20: nobody is ejected for failures that all have, be they one in a hundred or one in two; but one that fails more
// often than that is.
func TestPA20CommonFailuresEjectNobody(t *testing.T) {
	for _, percent := range []int{1, 10, 50} {
		inWard(t, []string{"a", "b", "c", "d"}, func(w *ward) {
			dice := rand.New(rand.NewPCG(1, 2))
			for i := range 100_000 {
				chance := dice.IntN(100)
				if i < 400 { // in turn at first: chance alone makes five of five beside none of three
					chance = i / 4 * percent % 100
				}
				o := traffic.Success
				if chance < percent {
					o = traffic.Failure
				}
				w.ends([]string{"a", "b", "c", "d"}[i%4], o)
			}
			require.Len(t, w.routed(), 4, "%d%%", percent)
		})
	}
	inWard(t, []string{"a", "b", "c", "d"}, func(w *ward) {
		for range 10 {
			for i, id := range []string{"a", "b", "c", "d"} {
				w.ends(id, traffic.Failure)
				for range i {
					w.ends(id, traffic.Success) // a always fails, d one time in four
				}
			}
		}
		require.Equal(t, []string{"b", "c", "d"}, w.routed())
	})
}

func TestDrainingAndRemoving(t *testing.T) {
	inWard(t, []string{"a", "b"}, func(w *ward) {
		begun := w.route.Load().seats[w.server("a").Backend].begin(1)
		a := BackendConfig{ID: "a", URL: w.server("a").URL(), Weight: 1}
		_, err := w.put(a.ID, exactly(a, true), time.Now())
		require.NoError(t, err)
		require.Equal(t, "draining", w.health("a"))
		require.Equal(t, []string{"b"}, w.routed())
		_, err = w.put(a.ID, exactly(a, false), time.Now())
		require.NoError(t, err)
		require.Equal(t, "slow_start", w.health("a"))
		s := w.server("a")
		require.NoError(t, w.remove("a"))
		require.ErrorIs(t, w.remove("a"), errUnknownBackend)
		require.EqualValues(t, 1, s.InFlight(), "what is under way goes on")
		begun.end(2, traffic.Failure)
		require.Zero(t, s.InFlight())
	})
}

// An arm of a measurement that follows one in which a backend failed begins like any other.
func TestAResetForgetsEjectionsAndWhatWasLearned(t *testing.T) {
	inWard(t, []string{"a", "b", "c", "d"}, func(w *ward) {
		w.fail("a", 5)
		w.sick["b"].Store(true)
		w.after(7 * time.Second) // b is down by its checks
		b := w.server("c")
		b.End(b.Begin(), balance.Now(), time.Second, balance.Success)
		require.NotZero(t, b.ResponseTime())
		w.sick["b"].Store(false)

		w.forget(time.Now())
		require.ElementsMatch(t, []string{"a", "b", "c", "d"}, w.routed())
		require.Zero(t, b.ResponseTime())
		require.InDelta(t, 1, w.server("a").Warmth(), 0, "no slow start")
		w.fail("a", 5)
		require.Equal(t, 1, w.server("a").health.ejections, "the first ejection is as long as ever")
		w.sick["d"].Store(true)
		w.after(7 * time.Second)
		require.NotContains(t, w.routed(), "d", "who is down is found all the same")
	})
}

// exactly is a change to just that.
func exactly(to BackendConfig, drains bool) func(*BackendConfig, *bool) error {
	return func(b *BackendConfig, drain *bool) error {
		*b, *drain = to, drains
		return nil
	}
}
