//go:build unix

package managed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clusterMajor is the major version that made a cluster; 0: there is none.
func clusterMajor(cluster string) (int, error) {
	b, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	major := leadingNumber(string(b))
	if major == 0 {
		return 0, fmt.Errorf("%s/PG_VERSION says %q: not a cluster that can be used", cluster, b)
	}
	return major, nil
}

// makeCluster makes the cluster beside its place and renames it: a crash half-way leaves no half cluster.
func (s *Server) makeCluster(ctx context.Context) error {
	fresh := s.cluster + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := ownDir(fresh, s.account); err != nil {
		return err
	}
	if s.config.Template != "" {
		if err := copyTree(s.config.Template, fresh, s.account); err != nil {
			return fmt.Errorf("copying the template cluster: %w", err)
		}
	} else if err := s.initdb(ctx, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, s.cluster)
}

func (s *Server) initdb(ctx context.Context, dir string) error {
	args := []string{"-D", dir, "-U", superuser, "--auth-local=trust", "--auth-host=reject", "-E", "UTF8", "--no-locale",
		"--wal-segsize=4", "--data-checksums"}
	if s.bin.major >= 14 {
		args = append(args, "--no-instructions")
	}
	if s.config.Ephemeral {
		args = append(args, "--no-sync")
	}
	c := s.command(ctx, "initdb", args...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("making a new cluster with initdb: %w\n%s", err, out)
	}
	return nil
}

// copyTree copies a stopped cluster and gives it to the account. ReadFrom shares blocks where the file system can.
func copyTree(from, to string, account *syscall.Credential) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == from {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if d.IsDir() {
			err = os.Mkdir(target, 0o700)
		} else {
			err = copyFile(path, target)
		}
		if err == nil && account != nil {
			err = os.Lchown(target, int(account.Uid), int(account.Gid))
		}
		return err
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in)
	return errors.Join(err, out.Close())
}

// postmaster is what postmaster.pid says.
type postmaster struct {
	pid   int
	ready bool // it takes connections
}

// readPostmaster reads postmaster.pid; the zero value when there is none.
func readPostmaster(cluster string) (p postmaster) {
	b, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if err != nil {
		return p
	}
	lines := strings.Split(string(b), "\n")
	p.pid, _ = strconv.Atoi(strings.TrimSpace(lines[0]))
	p.ready = len(lines) >= 8 && strings.TrimSpace(lines[7]) == "ready"
	return p
}

// clearStale stops an orphan and removes what a killed server left behind. Postgres itself decides by kill(pid, 0),
// for which a zombie or another process with the same number is alive. The caller holds owner.lock.
func (s *Server) clearStale(ctx context.Context) error {
	if p := readPostmaster(s.cluster); runsCluster(p.pid, s.cluster) {
		if err := stopOrphan(ctx, p.pid, s.cluster); err != nil {
			return err
		}
	}
	for _, f := range []string{
		filepath.Join(s.cluster, "postmaster.pid"),
		filepath.Join(s.socketDir, socketName+".lock"),
		filepath.Join(s.socketDir, socketName),
	} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// stopOrphan asks a server that lost its parent to shut down, and insists.
func stopOrphan(ctx context.Context, pid int, cluster string) error {
	for _, signal := range stopSignals {
		if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stopping the orphaned Postgres %d: %w", pid, err)
		}
		for end := time.Now().Add(stopPatience); time.Now().Before(end); {
			if !runsCluster(pid, cluster) {
				return nil
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return fmt.Errorf("the orphaned Postgres %d does not stop", pid)
}

// runsCluster reports whether a process is the server of a cluster: its working directory is. A zombie has none.
func runsCluster(pid int, cluster string) bool {
	if pid <= 0 || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	real, err := filepath.EvalSymlinks(cluster)
	if err != nil {
		return false
	}
	if runtime.GOOS == "linux" {
		dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
		return err == nil && dir == real
	}
	out, _ := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return strings.Contains(string(out), "postgres") && strings.Contains(string(out), cluster)
}
