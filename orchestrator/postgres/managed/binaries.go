//go:build unix

package managed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// oldestMajor is the oldest Postgres that our SQL runs on.
const oldestMajor = 13

// folders are where distributions put the server's programs, as patterns. `make tools` fills the caches.
func folders() []string {
	list := []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // Red Hat, from postgresql.org
		"/usr/libexec/postgresql*",  // Alpine
		"/opt/homebrew/opt/postgresql@*/bin",
		"/usr/local/opt/postgresql@*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		"/usr/local/pgsql/bin",
		"/var/lib/retune/postgres/*/bin", // make tools, as root
	}
	if cache, err := os.UserCacheDir(); err == nil {
		list = append(list, filepath.Join(cache, "retune/postgres/*/bin")) // make tools, as a user
	}
	return list
}

// candidates are the folders to look into, the best first.
func candidates() []string {
	var list []string
	if p, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			list = append(list, filepath.Dir(real))
		}
	}
	for _, pattern := range folders() {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, func(a, b string) int { return majorInPath(b) - majorInPath(a) })
		list = append(list, found...)
	}
	return list
}

// majorInPath is the last number of a path that looks like a Postgres major; 0: none.
func majorInPath(path string) (major int) {
	for _, f := range strings.FieldsFunc(path, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(f); err == nil && n >= 9 && n < 100 {
			major = n
		}
	}
	return major
}

// binaries are a folder of programs and what they are.
type binaries struct {
	dir     string
	version string // e.g. "postgres (PostgreSQL) 15.18 (Debian 15.18-1)"
	major   int
}

// inspect asks the programs of a folder what they are.
func inspect(dir string) (binaries, error) {
	for _, name := range []string{"postgres", "initdb"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return binaries{}, fmt.Errorf("%s holds no %s", dir, name)
		}
	}
	out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return binaries{}, fmt.Errorf("running %s/postgres --version: %w", dir, err)
	}
	b := binaries{dir: dir, version: strings.TrimSpace(string(out))}
	if words := strings.Fields(b.version); len(words) >= 3 {
		b.major = leadingNumber(words[2]) // 15.18, 18beta1
	}
	if b.major < oldestMajor {
		return binaries{}, fmt.Errorf("%s is %q: version %d or newer is needed", dir, b.version, oldestMajor)
	}
	return b, nil
}

func leadingNumber(s string) int {
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(s)
	}
	n, _ := strconv.Atoi(s[:end])
	return n
}

// find chooses the programs for a cluster of a given major; 0: a new cluster.
func find(chosen string, major int) (binaries, error) {
	if chosen != "" {
		b, err := inspect(chosen)
		if err == nil && major != 0 && b.major != major {
			err = fmt.Errorf("the cluster was made by Postgres %d, but %s is %d: set RETUNE_PG_BIN to the bin folder of a Postgres %d", major, chosen, b.major, major)
		}
		return b, err
	}
	var refused []error
	seen := map[string]bool{}
	for _, dir := range candidates() {
		if seen[dir] {
			continue
		}
		seen[dir] = true
		b, err := inspect(dir)
		if err == nil && (major == 0 || b.major == major) {
			return b, nil
		}
		if err == nil {
			err = fmt.Errorf("%s is Postgres %d", dir, b.major)
		}
		refused = append(refused, err)
	}
	return binaries{}, errors.Join(append([]error{missing(major)}, refused...)...)
}

// missing says what to do when there is no server program.
func missing(major int) error {
	what, apt, brew := "no Postgres server program was found", "postgresql", 17
	if major != 0 {
		what = fmt.Sprintf("the cluster was made by Postgres %d, and no server program of that version was found", major)
		apt, brew = fmt.Sprintf("postgresql-%d", major), major
	}
	install := "apt-get install " + apt
	if runtime.GOOS == "darwin" {
		install = fmt.Sprintf("brew install postgresql@%d", brew)
	}
	return fmt.Errorf("%s: run `make tools`, or `%s`, or set RETUNE_PG_BIN to the folder that holds postgres and initdb, "+
		"or set DATABASE_URL to a server of your own", what, install)
}

// Find reports the programs that a new cluster would use, for `retune doctor` and for tests.
func Find(chosen string) (dir, version string, err error) {
	b, err := find(chosen, 0)
	return b.dir, b.version, err
}
