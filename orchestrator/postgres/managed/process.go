//go:build unix

package managed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// process is one life of the server.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // why; to be read after done
}

// command runs one of the server's programs as its account. Its environment is built from nothing: a locale of the
// parent's that is not installed makes initdb fail. Its process group is its own: Ctrl-C in a terminal reaches us
// alone, and we stop things in order.
func (s *Server) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, filepath.Join(s.bin.dir, name), args...)
	c.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=/usr/bin:/bin", "HOME=" + s.socketDir}
	c.Dir = "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.account, Setpgid: true}
	return c
}

// settings of the server. Parallel workers and JIT are off so that a query does not disturb a measurement.
func (s *Server) settings() []string {
	list := []string{
		"listen_addresses=", "unix_socket_directories=" + quoteList(s.socketDir), "unix_socket_permissions=0700", "port=" + port,
		"wal_level=minimal", "max_wal_senders=0", "max_wal_size=256MB",
		"max_parallel_workers_per_gather=0", "jit=off",
		"timezone=UTC", "log_timezone=UTC", "log_destination=stderr", "logging_collector=off", "log_line_prefix=%m [%p] ",
		"cluster_name=retune", "idle_in_transaction_session_timeout=60s",
	}
	if s.config.Ephemeral {
		return append(list, "max_connections=100", "shared_buffers=32MB", "fsync=off", "synchronous_commit=off",
			"full_page_writes=off", "checkpoint_timeout=1h", "autovacuum=off")
	}
	return append(list, "max_connections=50", "shared_buffers=64MB")
}

// quoteList quotes one element of a list setting.
func quoteList(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// leftoverPatience is how long a backend that outlived its killed server may take to end.
const leftoverPatience = time.Minute

// launch starts the process. A backend that outlived a killed server holds its shared memory for a while: Postgres
// refuses until it is gone, and so launch tries again.
func (s *Server) launch(ctx context.Context) error {
	for end := time.Now().Add(leftoverPatience); ; {
		err := s.run(ctx)
		if err == nil || !strings.Contains(err.Error(), "pre-existing shared memory block") || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// run starts the process and waits until it takes connections.
func (s *Server) run(ctx context.Context) error {
	log, from, err := s.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", s.cluster}
	for _, setting := range s.settings() {
		args = append(args, "-c", setting)
	}
	p := &process{cmd: s.command(context.WithoutCancel(ctx), "postgres", args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log // a file, not a pipe: nothing breaks when we die
	dieWithUs(p.cmd.SysProcAttr)
	if err := p.start(); err != nil {
		return err
	}
	if err := s.awaitReady(ctx, p); err != nil {
		return fmt.Errorf("%w\n%s", err, lastLines(log.Name(), from))
	}
	s.mu.Lock()
	s.proc = p
	s.mu.Unlock()
	return nil
}

// start starts and awaits the process on a thread of its own: the kernel's promise to interrupt the child when its
// parent dies is tied to the thread that made it.
func (p *process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.done)
		}
	}()
	return <-started
}

// awaitReady watches postmaster.pid: no connection is made, so none is logged. On failure the process has ended.
func (s *Server) awaitReady(ctx context.Context, p *process) error {
	for {
		select {
		case <-p.done:
			return fmt.Errorf("postgres ended at once: %w", errors.Join(p.err, errors.New("its log says:")))
		case <-ctx.Done():
			_ = p.cmd.Process.Signal(syscall.SIGQUIT) // fails when it has ended already
			<-p.done
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
		if m := readPostmaster(s.cluster); m.pid == p.cmd.Process.Pid && m.ready {
			return nil
		}
	}
}

// openLog opens the log for appending and says where its new part begins. A long one is put aside first.
func (s *Server) openLog() (log *os.File, from int64, err error) {
	name := filepath.Join(s.config.DataDir, "postgres.log")
	if info, err := os.Stat(name); err == nil && info.Size() > logLimit {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, 0, err
		}
	}
	if log, err = os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, 0, err
	}
	info, err := log.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, log.Close())
	}
	return log, info.Size(), nil
}

// tail is what the server said last.
func (s *Server) tail() string { return lastLines(filepath.Join(s.config.DataDir, "postgres.log"), 0) }

// lastLines are the last 20 lines of a log after an offset.
func lastLines(name string, from int64) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b[min(from, int64(len(b))):]), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-20):], []byte("\n")))
}
