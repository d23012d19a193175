//go:build unix

package managed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	superuser  = "retune"
	port       = "5432" // names the socket's file; no TCP port is opened
	socketName = ".s.PGSQL." + port

	stopPatience = 15 * time.Second // for each of stopSignals
	logLimit     = 10 << 20         // above it the log is put aside at the next start
)

// stopSignals are a fast shutdown, an immediate one, and the end.
var stopSignals = []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL}

// Server is a running Postgres. Its methods are safe for concurrent use.
type Server struct {
	config    Config
	bin       binaries
	account   *syscall.Credential
	cluster   string
	socketDir string
	lock      *os.File

	life sync.Mutex // held while the process is started again or stopped
	over bool       // guarded by life: Stop was called

	mu   sync.Mutex
	proc *process // guarded by mu: the newest
}

// Start makes a cluster where there is none, starts its server and waits until it takes connections. The server
// lives until Stop or the end of this process, whatever becomes of ctx. An existing cluster is never made anew:
// programs of another major version are an error.
func Start(ctx context.Context, c Config) (*Server, error) {
	s, err := prepare(c)
	if err != nil {
		return nil, fmt.Errorf("preparing our own Postgres: %w", err)
	}
	if err := s.start(ctx); err != nil {
		s.release()
		return nil, fmt.Errorf("starting our own Postgres in %s: %w", s.config.DataDir, err)
	}
	return s, nil
}

// prepare takes the data directory and chooses programs and account.
func prepare(c Config) (*Server, error) {
	var err error
	if c.DataDir, err = filepath.Abs(c.DataDir); err != nil { // the child runs in /
		return nil, err
	}
	if err := os.MkdirAll(c.DataDir, 0o755); err != nil {
		return nil, err
	}
	s := &Server{config: c, cluster: filepath.Join(c.DataDir, "pg"), socketDir: socketDir(c.DataDir)}
	if s.lock, err = ownerLock(c.DataDir); err != nil {
		return nil, err
	}
	if err := s.choose(); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

func (s *Server) choose() error {
	major, err := clusterMajor(s.cluster)
	if err != nil {
		return err
	}
	if s.bin, err = find(s.config.BinDir, major); err != nil {
		return err
	}
	if s.account, err = chooseAccount(s.config.Account, s.cluster); err != nil {
		return err
	}
	return errors.Join(reachable(s.config.DataDir, s.account), reachable(s.bin.dir, s.account))
}

// start runs the server on a cluster that is there or is made.
func (s *Server) start(ctx context.Context) error {
	if err := ownDir(s.socketDir, s.account); err != nil {
		return err
	}
	major, err := clusterMajor(s.cluster)
	if err != nil {
		return err
	}
	if major == 0 {
		if err := s.makeCluster(ctx); err != nil {
			return err
		}
	}
	if err := s.clearStale(ctx); err != nil {
		return err
	}
	return s.launch(ctx)
}

// DSN is how to connect to the server's database.
func (s *Server) DSN() string { return s.DSNOf("postgres") }

// DSNOf is how to connect to one database of the server. It names everything that the PG* variables could change.
func (s *Server) DSNOf(database string) string {
	return fmt.Sprintf("host='%s' port=%s user=%s dbname=%s sslmode=disable target_session_attrs=any options=''",
		strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s.socketDir), port, superuser, database)
}

// Done is closed when the server process has ended, asked to or not. After a restart by Keep it is another channel.
func (s *Server) Done() <-chan struct{} { return s.current().done }

// Pid is the server's process.
func (s *Server) Pid() int { return s.current().cmd.Process.Pid }

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

// restartEvery is how long a server has to live for its death to be the first again. One that dies sooner is started
// again after a wait that grows up to longestWait: a proxy serves on without it, so nothing ends because of it.
const (
	restartEvery = time.Minute
	longestWait  = 30 * time.Second
)

// Keep starts the server again when it dies by itself, until ctx ends or Stop is called. died is told of each death, with
// what the server said last.
func (s *Server) Keep(ctx context.Context, died func(said string)) error {
	var last time.Time
	wait := time.Duration(0)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Done():
		}
		if wait = min(max(time.Second, 2*wait), longestWait); time.Since(last) > restartEvery {
			wait = 0
		}
		if over := s.revive(ctx, wait, died); over {
			return nil
		}
		last = time.Now()
	}
}

// revive starts the server again after a wait; over when it was stopped on purpose.
func (s *Server) revive(ctx context.Context, wait time.Duration, died func(said string)) (over bool) {
	s.life.Lock()
	defer s.life.Unlock()
	for ; !s.over && ctx.Err() == nil; wait = min(max(time.Second, 2*wait), longestWait) {
		died(s.tail())
		select {
		case <-ctx.Done():
			return true
		case <-time.After(wait):
		}
		if s.start(ctx) == nil {
			return false
		}
	}
	return true
}

// Stop ends the server cleanly and waits for it; when ctx ends it insists. Safe to call twice.
func (s *Server) Stop(ctx context.Context) error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.over {
		return nil
	}
	s.over = true
	defer s.release()
	p := s.current()
	for _, signal := range stopSignals {
		_ = p.cmd.Process.Signal(signal) // fails when it has ended already
		select {
		case <-p.done:
			return nil
		case <-ctx.Done():
		case <-time.After(stopPatience):
		}
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(stopPatience):
		return fmt.Errorf("Postgres %d does not stop", p.cmd.Process.Pid)
	}
}

// release gives the data directory back.
func (s *Server) release() {
	if filepath.Dir(s.socketDir) != s.config.DataDir {
		_ = os.Remove(s.socketDir) // the short one in /tmp; it stays when something is in it
	}
	_ = s.lock.Close()
}
