package proxy

import (
	"fmt"

	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"retune/proxy/balance"
	"retune/proxy/traffic"
)

// hang lets n requests of a backend begin and not end.
func (w *ward) hang(id string, n int) (under []exchange) {
	for range n {
		under = append(under, w.route.Load().seats[w.server(id).Backend].begin(balance.Now()))
	}
	return under
}

// usually makes a backend's answers take that long.
func (w *ward) usually(d time.Duration, ids ...string) {
	for _, id := range ids {
		b := w.server(id)
		b.End(b.Begin(), balance.Now(), d, balance.Success)
	}
}

// A backend that answers nothing, health checks neither, is out in two seconds instead of after its requests' timeout
// or three checks', and whoever waits for it is told.
func TestASilentBackendThatIsDeadIsLost(t *testing.T) {
	inWard(t, []string{"a", "b", "c"}, func(w *ward) {
		w.usually(50*time.Millisecond, "a", "b", "c")
		w.after(time.Second)
		w.mute.Store(true)
		w.sick["a"].Store(true)
		w.hang("a", 1)
		var told atomic.Int64
		stop := w.server("a").onceLost(func() { told.Add(1) })
		kept := w.server("a").onceLost(func() { told.Add(10) })
		require.True(t, kept(), "one that has got its answer waits no more")
		w.after(1250 * time.Millisecond)
		require.Equal(t, "healthy", w.health("a"))
		w.after(750 * time.Millisecond)
		require.Equal(t, "unhealthy", w.health("a"))
		require.Equal(t, []string{"b", "c"}, w.routed())
		require.EqualValues(t, 1, told.Load())
		require.False(t, stop())
		require.True(t, w.server("a").onceLost(func() { told.Add(100) })(), "who goes there in spite of it waits like any other")

		w.sick["a"].Store(false)
		w.after(7 * time.Second)
		require.Equal(t, "slow_start", w.health("a"), "though its old requests still wait")
		require.EqualValues(t, 1, told.Load())
	})
}

// Clients that give up hide no silence.
func TestGivingUpIsNoAnswer(t *testing.T) {
	inWard(t, []string{"a", "b", "c"}, func(w *ward) {
		w.usually(50*time.Millisecond, "a", "b", "c")
		w.after(time.Second)
		w.mute.Store(true)
		w.sick["a"].Store(true)
		w.hang("a", 1)
		for n := 0; n < 20 && w.health("a") == "healthy"; n++ {
			given := w.hang("a", 1)
			w.after(100 * time.Millisecond)
			given[0].end(balance.Now(), traffic.Aborted)
		}
		require.Equal(t, "unhealthy", w.health("a"))
	})
}

// Silence alone proves nothing: who answers the check, be it that it is not well, stays, and is not asked all the time.
func TestASilentBackendThatAnswersItsCheckStays(t *testing.T) {
	for _, sick := range []bool{false, true} {
		inWard(t, []string{"a", "b"}, func(w *ward) {
			w.usually(50*time.Millisecond, "a", "b")
			w.judge(func(c *HealthConfig) { c.Interval = 20 * time.Second })
			w.after(5 * time.Second)
			w.sick["a"].Store(sick)
			w.checks.Store(0)
			w.hang("a", 5)
			w.after(14 * time.Second)
			require.Equal(t, "healthy", w.health("a"))
			require.EqualValues(t, 1, w.checks.Load(), "since the usual ones")
		})
	}
}

// Answers that go on for hours are no silence, and take nobody's side: a backend that has nothing but streams is well, and one
// that hangs is found among others that have some.
func TestAStreamIsNoSilence(t *testing.T) {
	inWard(t, []string{"a", "b", "c"}, func(w *ward) {
		w.usually(50*time.Millisecond, "a", "b", "c")
		w.after(time.Second)
		w.mute.Store(true)
		streams := append(w.hang("a", 3), w.hang("b", 3)...)
		for i := range streams {
			streams[i].flow(balance.Now())
		}
		w.sick["a"].Store(true) // whoever is asked is lost
		w.sick["b"].Store(true)
		w.after(4 * time.Second)
		require.Len(t, w.routed(), 3)
		w.hang("a", 1)
		w.after(2500 * time.Millisecond)
		require.Equal(t, []string{"b", "c"}, w.routed())
		for i := range streams {
			streams[i].end(balance.Now(), traffic.Success)
		}
		require.EqualValues(t, 1, w.server("a").Waiting())
		require.Zero(t, w.server("b").Waiting())
	})
}

// When most backends are silent what they share is the cause, and fewer of them would not help.
func TestCommonSilenceTakesNobodyOut(t *testing.T) {
	inWard(t, []string{"a", "b", "c"}, func(w *ward) {
		w.usually(50*time.Millisecond, "a", "b", "c")
		w.after(time.Second)
		w.mute.Store(true)
		w.sick["a"].Store(true)
		w.sick["b"].Store(true)
		w.hang("a", 3)
		w.hang("b", 3)
		w.after(4 * time.Second)
		require.Len(t, w.routed(), 3)
	})
}

// What is slow by nature is not silent, nor is one whose requests end, nor one that has nothing to do.
func TestWhatIsNotSilent(t *testing.T) {
	inWard(t, []string{"a", "b", "c", "d"}, func(w *ward) {
		w.mute.Store(true)
		w.judge(func(c *HealthConfig) { c.Fall = 1000 })
		w.usually(2*time.Second, "a")
		w.usually(50*time.Millisecond, "b", "c")
		for _, id := range []string{"a", "b", "c"} {
			w.sick[id].Store(true)
		}
		w.hang("a", 1)
		for _, x := range w.hang("b", 16) {
			w.after(450 * time.Millisecond)
			x.end(balance.Now(), traffic.Success)
		}
		require.Len(t, w.routed(), 4)
		w.after(5 * time.Second)
		require.NotContains(t, w.routed(), "a", "in the end it is")
	})
}

// A backend that comes back is on probation: its first failure puts it out again, its first success makes it like any
// other. What began before says nothing.
func TestABackendThatComesBackIsOnProbation(t *testing.T) {
	inWard(t, []string{"a", "b"}, func(w *ward) {
		old := w.hang("a", 10)
		w.fail("a", 5)
		w.after(5500 * time.Millisecond)
		require.Equal(t, "slow_start", w.health("a"))
		for _, x := range old {
			x.end(balance.Now(), traffic.Failure)
		}
		require.Equal(t, "slow_start", w.health("a"), "they were sent before")
		w.fail("a", 1)
		require.Equal(t, "ejected", w.health("a"))
		w.after(10500 * time.Millisecond)
		w.hang("a", 1)[0].end(balance.Now(), traffic.Success)
		w.fail("a", 4)
		require.Equal(t, "slow_start", w.health("a"))
		w.fail("a", 1)
		require.Equal(t, "ejected", w.health("a"))
	})
}

// What began before a reset says nothing of the measurement after it.
func TestAResetForgetsWhatIsUnderWay(t *testing.T) {
	inWard(t, []string{"a", "b", "c"}, func(w *ward) {
		old := w.hang("a", 10)
		w.after(time.Millisecond)
		w.forget(time.Now())
		for _, x := range old {
			x.end(balance.Now(), traffic.Failure)
		}
		require.Equal(t, "healthy", w.health("a"))
		w.fail("a", 5)
		require.Equal(t, "ejected", w.health("a"))
	})
}

// What was learned of a backend before it went says nothing of it now: an average that has to fade first would keep
// requests away for minutes.
func TestABackendThatComesBackIsUnknown(t *testing.T) {
	inWard(t, []string{"a", "b"}, func(w *ward) {
		w.usually(10*time.Second, "a")
		w.fail("a", 5)
		require.NotZero(t, w.server("a").ResponseTime())
		w.after(5500 * time.Millisecond)
		require.Zero(t, w.server("a").ResponseTime())
	})
}

// blackHole accepts connections, its health checks' too, and never answers.
func blackHole(t *testing.T) *httptest.Server {
	ln := listenLocal(t)
	gone := make(chan struct{})
	t.Cleanup(func() { ln.Close(); close(gone) })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				<-gone
				c.Close()
			}()
		}
	}()
	return &httptest.Server{URL: "http://" + ln.Addr().String(), Listener: ln}
}

// A black hole costs no client a GET: what waits there goes elsewhere once the backend is lost. A POST, which may have
// been carried out, waits for its own timeout.
func TestABlackHoleCostsNoGET(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		check(t, "elsewhere", func(t *testing.T) {
			p := e.over(t, nil, blackHole(t), backend(t, says("b")), backend(t, says("c")))
			p.fix(balance.RoundRobin)
			for p.statusOf("a").InFlight == 0 { // until one goes there, and waits
				go p.from(t.Context(), fmt.Sprintf("10.0.0.%d", time.Now().UnixNano()%256))
				time.Sleep(time.Millisecond)
			}
			s := p.crowd(40, 8)
			require.Equal(t, map[int]int{200: 40}, s.status)
			soon(t, "it is found", func() bool { return p.statusOf("a").Health == "unhealthy" })
			soon(t, "nothing waits", func() bool { return p.pool.inFlight() == 0 })
		})
	})
}

// Two answers that stop in mid-body, with none that succeeds between them, eject a backend whose health checks pass;
// pauses in an answer of no announced length are usual.
func TestStallsInMidBodyEject(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		stalls(t, e, true)
		stalls(t, e, false)
	})
}

func stalls(t *testing.T, e contender, announced bool) {
	check(t, fmt.Sprintf("announced %t", announced), func(t *testing.T) {
		p := e.over(t, func(c *Config) { c.RequestTimeout = 3 * time.Second }, backend(t, func(w http.ResponseWriter, r *http.Request) {
			if announced {
				w.Header().Set("Content-Length", "100")
			}
			fmt.Fprint(w, "half")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), backend(t, says("b")))
		p.fix(balance.RoundRobin)
		broken := make(chan int, 4)
		for i := range 4 { // two of them there
			go func() {
				status, _ := p.from(t.Context(), fmt.Sprintf("10.0.0.%d", i))
				broken <- status
			}()
		}
		if announced {
			soon(t, "it is out", func() bool { return p.statusOf("a").Health == "ejected" })
			count := map[int]int{}
			for range 4 {
				count[<-broken]++
			}
			require.Equal(t, map[int]int{200: 2, 0: 2}, count, "cut after the request timeout")
			return
		}
		time.Sleep(stallTime + time.Second)
		require.Equal(t, "healthy", p.statusOf("a").Health)
	})
}

// An answer that goes on is not waited for, under any engine, and is booked out whole.
func TestAnAnswerThatHasBegunIsNotWaitedFor(t *testing.T) {
	eachEngine(t, func(t *testing.T, e contender) {
		for _, announced := range []bool{false, true} {
			check(t, fmt.Sprintf("announced %t", announced), func(t *testing.T) {
				more := make(chan struct{})
				p := e.over(t, nil, backend(t, func(w http.ResponseWriter, r *http.Request) {
					if announced {
						w.Header().Set("Content-Length", "8")
					}
					fmt.Fprint(w, "half")
					_ = http.NewResponseController(w).Flush()
					<-more
					fmt.Fprint(w, "half")
				}))
				a := p.pool.route.Load().seats[p.pool.route.Load().available[0]]
				status := make(chan int, 1)
				go func() {
					got, _ := p.from(t.Context(), "10.0.0.1")
					status <- got
				}()
				soon(t, "the answer has begun", func() bool { return a.InFlight() == 1 && a.Waiting() == 0 })
				require.EqualValues(t, 1, a.begun.Load())
				close(more)
				require.Equal(t, http.StatusOK, <-status)
				soon(t, "it is booked out", func() bool { return a.InFlight() == 0 && a.Waiting() == 0 })
			})
		}
	})
}
