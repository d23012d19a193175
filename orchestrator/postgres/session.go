package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"retune/orchestrator/postgres/queries"
)

const (
	tick         = 2 * time.Second // the net below LISTEN, and how often the session is checked
	pingPatience = 3 * time.Second // a session that does not answer for so long is lost
	joinPatience = 10 * time.Second
	joinRetry    = 200 * time.Millisecond

	// silence is after which another instance ends the session of one that owns a cycle: its process is stopped, or its
	// machine is. One that lives speaks every tick, and knows after tick and pingPatience that its session is lost.
	silence = 12 * time.Second
)

// keepalives let the server end connections within 11 s when their host lost power or network, and so free its cycles and
// what an open transaction has locked; by default that takes two hours. Over a Unix socket they mean nothing.
var keepalives = map[string]string{"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}

// session is a connection that holds this instance's advisory lock and listens.
type session struct {
	conn     *pgx.Conn // used by Listen alone while it runs
	instance int       // 0: none
	lost     chan struct{}
}

// join opens a session under a fresh instance number. An old number is never taken again: its cycles may have been
// reclaimed.
func (s *Store) join(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, joinPatience)
	defer stop()
	conn, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	q := queries.New(conn)
	instance, err := q.NewInstance(ctx)
	if err == nil {
		err = q.HoldInstance(ctx, instance)
	}
	if err == nil {
		_, err = conn.Exec(ctx, "LISTEN retune")
	}
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.session = session{conn: conn, instance: instance, lost: make(chan struct{})}
	return nil
}

// leave ends the session; without one nothing happens.
func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session.instance == 0 {
		return
	}
	s.former[s.session.instance] = true
	s.session.instance = 0
	close(s.session.lost)
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	_ = s.session.conn.Close(ctx) // the server may be gone
}

// instance is this instance's number; 0 while it has no session.
func (s *Store) instance() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session.instance
}

// Lost is closed when the session of now is lost, and with it every cycle that was claimed under it: the holder has
// to stop working on it, another instance will end it. Take the channel right after Claim.
func (s *Store) Lost() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session.lost
}

// Wake is signalled when there may be something to claim or to cancel, when the session is lost or back, and every 2 s.
func (s *Store) Wake() <-chan struct{} { return s.wake }

func (s *Store) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it is signalled already
	}
}

// Listen watches the session until ctx ends, and opens a new one when it is lost, for instance because Postgres was
// restarted. The session outlives Listen: it ends with Close, when cycles have been saved.
func (s *Store) Listen(ctx context.Context) error {
	for {
		err := s.watch(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.leave()
		s.poke()
		s.log.Warn("the session with Postgres is lost; running cycles are not ours any more", "error", err)
		if !s.rejoin(ctx) {
			return nil
		}
		s.poke()
	}
}

// watch waits for notifications until the session breaks or ctx ends.
func (s *Store) watch(ctx context.Context) error {
	s.mu.Lock()
	conn := s.session.conn
	s.mu.Unlock()
	for spoke := time.Now(); ; {
		wait, stop := context.WithDeadline(ctx, spoke.Add(tick)) // however many notifications come: others watch that we speak
		_, err := conn.WaitForNotification(wait)
		stop()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && pgconn.Timeout(err) {
			err = ping(ctx, conn)
			spoke = time.Now()
		}
		if err != nil {
			return err
		}
		s.poke()
	}
}

// ping finds out whether a silent session is alive, since a dead network says nothing, and shows that we are.
func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, stop := context.WithTimeout(ctx, pingPatience)
	defer stop()
	return conn.Ping(ctx)
}

// rejoin tries until there is a session again; false when ctx ended first.
func (s *Store) rejoin(ctx context.Context) bool {
	for {
		err := s.join(ctx)
		if err == nil {
			s.log.Info("the session with Postgres is back", "instance", s.instance())
			return true
		}
		s.log.Debug("no session with Postgres yet", "error", err)
		select {
		case <-ctx.Done():
			return false
		case <-time.After(joinRetry):
		}
	}
}

// errNoSession is for what only a living instance may do.
var errNoSession = errors.New("the session with Postgres is lost; it is being opened again")
