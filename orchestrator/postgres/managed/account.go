//go:build unix

package managed

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// chooseAccount is who runs the server: nil when that is us. Postgres refuses to run as root.
func chooseAccount(name, cluster string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if info, err := os.Stat(cluster); err == nil && name == "" {
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 0 {
			return &syscall.Credential{Uid: st.Uid, Gid: st.Gid, Groups: []uint32{}}, nil
		}
	}
	names := []string{"retune", "postgres", "nobody"}
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		u, err := user.Lookup(n)
		if err != nil && name != "" {
			return nil, fmt.Errorf("the account that shall run Postgres: %w", err)
		}
		if err != nil || u.Uid == "0" {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}, errors.Join(errU, errG)
	}
	return nil, errors.New("Postgres does not run as root, and no account retune, postgres or nobody was found: " +
		"make one (useradd --system retune), run as an ordinary user, or set DATABASE_URL")
}

// reachable is an error when the account can't walk to dir.
func reachable(dir string, account *syscall.Credential) error {
	if account == nil {
		return nil
	}
	for p := dir; ; p = filepath.Dir(p) {
		info, err := os.Stat(p)
		if err != nil {
			return err
		}
		st, mode := info.Sys().(*syscall.Stat_t), info.Mode().Perm()
		open := mode&0o001 != 0 || (st.Uid == account.Uid && mode&0o100 != 0) || (st.Gid == account.Gid && mode&0o010 != 0)
		if !open {
			return fmt.Errorf("the account %d, which runs Postgres, cannot enter %s (mode %v): choose another data directory, such as /var/lib/retune", account.Uid, p, mode)
		}
		if p == "/" {
			return nil
		}
	}
}

// ownDir makes a directory that only the server's account can enter, and makes sure that nobody else made it.
func ownDir(dir string, account *syscall.Credential) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	is, want := info.Sys().(*syscall.Stat_t).Uid, uint32(os.Geteuid())
	if account != nil {
		want = account.Uid
		if is == 0 {
			if err := os.Chown(dir, int(account.Uid), int(account.Gid)); err != nil {
				return fmt.Errorf("giving %s to the account that runs Postgres: %w: run as an ordinary user or set DATABASE_URL", dir, err)
			}
			is = want
		}
	}
	if is != want {
		return fmt.Errorf("%s belongs to user %d, not to %d, who runs Postgres", dir, is, want)
	}
	return os.Chmod(dir, 0o700)
}

// longestSocket is how long a socket's path may be: 104 bytes on macOS, 108 on Linux, with a margin.
const longestSocket = 100

// socketDir is where the socket of a data directory lies.
func socketDir(dataDir string) string {
	dir := filepath.Join(dataDir, "run")
	if len(dir)+len("/"+socketName+".lock") <= longestSocket {
		return dir
	}
	sum := sha256.Sum256([]byte(dataDir))
	return filepath.Join("/tmp", fmt.Sprintf("retune-%d-%s", os.Geteuid(), hex.EncodeToString(sum[:5])))
}

// ownerLock takes the data directory for this process; the file stays open for as long as it is ours.
func ownerLock(dataDir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dataDir, "owner.lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		pid := make([]byte, 20)
		n, _ := f.Read(pid)
		f.Close()
		return nil, fmt.Errorf("the data directory %s is in use by process %s: stop it, or choose another with --data",
			dataDir, cmp.Or(strings.TrimSpace(string(pid[:n])), "(unknown)"))
	}
	if err := f.Truncate(0); err == nil {
		fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	return f, nil
}
