//go:build unix

package managed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const patience = 30 * time.Second

// TestMain lets the test binary be the parent that a test kills: with RETUNE_TEST_PARENT it starts a server, says its
// pid, and waits for a signal or for ever.
func TestMain(m *testing.M) {
	if text := os.Getenv("RETUNE_TEST_PARENT"); text != "" {
		var c Config
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		parent(c)
		return
	}
	code := m.Run()
	if cluster, err := made(); err == nil {
		os.RemoveAll(filepath.Dir(cluster))
	}
	os.Exit(code)
}

func parent(c Config) {
	s, err := Start(context.Background(), c)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Pid())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the test lets go of us
	_ = s.Stop(context.Background())
}

// startParent runs a server in another process and returns both.
func startParent(t *testing.T, c Config, as *syscall.Credential) (parent *exec.Cmd, server int, release io.Closer) {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.Command(program(t))
	cmd.Env = append(os.Environ(), "RETUNE_TEST_PARENT="+string(text))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err, line)
	return cmd, pid, stdin
}

// program is this test binary, where every account can run it.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	to := filepath.Join(reachableDir(t), "managed.test")
	require.NoError(t, copyFile(self, to))
	require.NoError(t, os.Chmod(to, 0o755))
	return to
}

// reachableDir is a directory that the account which runs Postgres can walk to: t.TempDir is not, for root.
func reachableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "retune-managed-")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// made is a stopped cluster that tests copy: making one takes a second of work.
var made = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "retune-managed-")
	if err == nil {
		err = os.Chmod(dir, 0o755) // the account that runs Postgres has to walk to it
	}
	if err != nil {
		return "", err
	}
	s, err := Start(context.Background(), Config{DataDir: dir, BinDir: os.Getenv("RETUNE_PG_BIN"), Ephemeral: true})
	if err != nil {
		return "", err
	}
	return s.cluster, s.Stop(context.Background())
})

// config is a data directory of its own, on whose first start a made cluster is copied.
func config(t *testing.T) Config {
	t.Helper()
	c := fresh(t)
	var err error
	c.Template, err = made()
	require.NoError(t, err)
	return c
}

// fresh is a data directory on whose first start a cluster is made.
func fresh(t *testing.T) Config {
	t.Helper()
	c := Config{DataDir: filepath.Join(reachableDir(t), "data"), BinDir: os.Getenv("RETUNE_PG_BIN"), Ephemeral: true}
	if _, _, err := Find(c.BinDir); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return c
}

func start(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := Start(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Stop(context.Background())) })
	return s
}

func query(t *testing.T, s *Server, sql string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DSN())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&answer))
	return answer
}

func exec1(t *testing.T, s *Server, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), s.DSN())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

// gone waits until a process is none any more, or a zombie that nobody reaps.
func gone(t *testing.T, pid int, cluster string) {
	t.Helper()
	require.Eventually(t, func() bool { return !runsCluster(pid, cluster) }, patience, 5*time.Millisecond)
}

func TestStartStopAndStartAgain(t *testing.T) {
	c := fresh(t)
	c.Ephemeral = false
	s := start(t, c)
	exec1(t, s, "CREATE TABLE note (text text); INSERT INTO note VALUES ('kept')")
	require.Empty(t, query(t, s, "SHOW listen_addresses"), "no TCP port")
	require.Equal(t, "on", query(t, s, "SHOW fsync"))
	info, err := os.Stat(s.socketDir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, s.Stop(t.Context()), "twice is fine")
	<-s.Done()
	again := start(t, c)
	require.Equal(t, "kept", query(t, again, "SELECT text FROM note"))
}

func TestOneOwnerPerDataDirectory(t *testing.T) {
	c := config(t)
	start(t, c)
	_, err := Start(t.Context(), c)
	require.ErrorContains(t, err, "in use by process "+strconv.Itoa(os.Getpid()))
}

func TestAKilledParentTakesTheServerAlong(t *testing.T) {
	c := config(t)
	p, server, _ := startParent(t, c, nil)
	require.NoError(t, p.Process.Kill())
	_ = p.Wait()
	cluster := filepath.Join(c.DataDir, "pg")
	gone(t, server, cluster)
	log, err := os.ReadFile(filepath.Join(c.DataDir, "postgres.log"))
	require.NoError(t, err)
	require.Contains(t, string(log), "database system is shut down", "a clean end")
	start(t, c)
}

func TestAKilledParentOfTheSameAccountTakesTheServerAlong(t *testing.T) {
	c := config(t)
	account, err := chooseAccount("", "/nowhere")
	require.NoError(t, err)
	if account != nil { // as root: the parent gives up its rights too, and the template is that account's
		require.NoError(t, os.Mkdir(c.DataDir, 0o755))
		require.NoError(t, os.Chown(c.DataDir, int(account.Uid), int(account.Gid)))
	}
	p, server, _ := startParent(t, c, account)
	require.NoError(t, p.Process.Kill())
	_ = p.Wait()
	gone(t, server, filepath.Join(c.DataDir, "pg"))
	start(t, c)
}

func TestParentAndServerKilled(t *testing.T) {
	c := config(t)
	p, server, _ := startParent(t, c, nil)
	require.NoError(t, syscall.Kill(server, syscall.SIGKILL))
	require.NoError(t, p.Process.Kill())
	_ = p.Wait()
	gone(t, server, filepath.Join(c.DataDir, "pg"))
	require.FileExists(t, filepath.Join(c.DataDir, "pg", "postmaster.pid"), "it is stale")
	start(t, c)
}

func TestCtrlCReachesUsAlone(t *testing.T) {
	c := config(t)
	p, server, release := startParent(t, c, nil)
	require.NotEqual(t, p.Process.Pid, pgid(t, server), "the server has a process group of its own")
	require.NoError(t, release.Close()) // the parent stops in order
	require.NoError(t, p.Wait())
	require.False(t, runsCluster(server, filepath.Join(c.DataDir, "pg")))
	require.NoFileExists(t, filepath.Join(c.DataDir, "pg", "postmaster.pid"))
}

func pgid(t *testing.T, pid int) int {
	t.Helper()
	group, err := syscall.Getpgid(pid)
	require.NoError(t, err)
	return group
}

func TestAServerThatDiesIsStartedAgainHoweverOften(t *testing.T) {
	c := config(t)
	c.Ephemeral = false
	s := start(t, c)
	exec1(t, s, "CREATE TABLE note (text text); INSERT INTO note VALUES ('kept')")
	deaths := make(chan string, 2)
	go func() { _ = s.Keep(t.Context(), func(said string) { deaths <- said }) }()
	for range 2 { // the second time after a wait
		before := s.Pid()
		require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
		require.Eventually(t, func() bool { return s.Pid() != before }, patience, 5*time.Millisecond)
		require.Equal(t, "kept", query(t, s, "SELECT text FROM note"))
		require.NotEmpty(t, <-deaths)
	}
}

func TestKeepEndsWithStop(t *testing.T) {
	s := start(t, config(t))
	ended := make(chan error, 1)
	go func() { ended <- s.Keep(t.Context(), func(string) {}) }()
	require.NoError(t, s.Stop(t.Context()))
	require.NoError(t, <-ended)
}

// On systems where the kernel does not end it, a server outlives its parent.
func TestAnOrphanIsStoppedAndReplaced(t *testing.T) {
	c := config(t)
	s := start(t, c)
	require.NoError(t, s.Stop(t.Context()))
	args := []string{"-D", s.cluster}
	for _, setting := range s.settings() {
		args = append(args, "-c", setting)
	}
	orphan := s.command(context.Background(), "postgres", args...)
	require.NoError(t, orphan.Start())
	reaped := make(chan error, 1)
	go func() { reaped <- orphan.Wait() }()
	require.Eventually(t, func() bool { return readPostmaster(s.cluster).ready }, patience, 5*time.Millisecond)
	again := start(t, c)
	<-reaped
	require.NotEqual(t, orphan.Process.Pid, again.Pid())
}

func TestAReusedPidIsNoServer(t *testing.T) {
	c := config(t)
	s := start(t, c)
	require.NoError(t, s.Stop(t.Context()))
	other := s.command(context.Background(), "postgres") // of the same account; it shall live but serve nothing
	other.Path, other.Args = "/bin/sleep", []string{"sleep", "60"}
	require.NoError(t, other.Start())
	t.Cleanup(func() { _ = other.Process.Kill(); _ = other.Wait() })
	pid := strconv.Itoa(other.Process.Pid)
	for _, f := range []string{filepath.Join(s.cluster, "postmaster.pid"), filepath.Join(s.socketDir, socketName+".lock")} {
		require.NoError(t, os.WriteFile(f, []byte(pid+"\n"+s.cluster+"\n1\n5432\n"+s.socketDir+"\n\n"), 0o600))
	}
	start(t, c)
	require.NoError(t, other.Process.Signal(syscall.Signal(0)), "it was let alone")
}

func TestABackendThatOutlivesTheServerIsWaitedFor(t *testing.T) {
	c := config(t)
	s := start(t, c)
	exec1(t, s, `CREATE FUNCTION burn() RETURNS void LANGUAGE plpgsql AS $$
		DECLARE n bigint := 0; until timestamptz := clock_timestamp() + interval '2 seconds';
		BEGIN WHILE clock_timestamp() < until LOOP n := n + 1; END LOOP; END $$`)
	conn, err := pgx.Connect(t.Context(), s.DSN())
	require.NoError(t, err)
	defer conn.Close(context.Background())
	burning := make(chan struct{})
	go func() { defer close(burning); _, _ = conn.Exec(context.Background(), "SELECT burn()") }()
	require.Eventually(t, func() bool {
		return query(t, s, "SELECT count(*)::text FROM pg_stat_activity WHERE query = 'SELECT burn()' AND state = 'active'") == "1"
	}, patience, 5*time.Millisecond)
	require.NoError(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	<-s.Done()
	require.NoError(t, s.Stop(t.Context()))
	start(t, c)
	<-burning
}

func TestAClusterOfAnotherMajorIsLeftAlone(t *testing.T) {
	c := config(t)
	require.NoError(t, os.MkdirAll(filepath.Join(c.DataDir, "pg"), 0o700))
	version := filepath.Join(c.DataDir, "pg", "PG_VERSION")
	require.NoError(t, os.WriteFile(version, []byte("9\n"), 0o600))
	_, err := Start(t.Context(), c)
	require.ErrorContains(t, err, "the cluster was made by Postgres 9")
	b, err := os.ReadFile(version)
	require.NoError(t, err)
	require.Equal(t, "9\n", string(b))
}

func TestMissingProgramsSayWhatToDo(t *testing.T) {
	err := missing(0)
	for _, way := range []string{"make tools", "RETUNE_PG_BIN", "DATABASE_URL", "install"} {
		require.ErrorContains(t, err, way)
	}
	_, err = Start(t.Context(), Config{DataDir: t.TempDir(), BinDir: t.TempDir()})
	require.ErrorContains(t, err, "holds no postgres")
}

func TestALongPathStillHasASocket(t *testing.T) {
	c := config(t)
	c.DataDir = filepath.Join(c.DataDir, strings.Repeat("long/", 25))
	s := start(t, c)
	require.Equal(t, "1", query(t, s, "SELECT 1::text"))
	require.True(t, strings.HasPrefix(s.socketDir, "/tmp/"), s.socketDir)
	require.NoError(t, s.Stop(t.Context()))
	require.NoDirExists(t, s.socketDir)
}

func TestTheEnvironmentDoesNotLeakIn(t *testing.T) {
	t.Setenv("LC_ALL", "xx_YY")
	t.Setenv("PGOPTIONS", "-c work_mem=123MB")
	t.Setenv("PGTARGETSESSIONATTRS", "read-only")
	t.Setenv("PGHOST", "db.invalid")
	t.Setenv("PGUSER", "somebody")
	s := start(t, config(t))
	require.Equal(t, "retune|4MB", query(t, s, "SELECT current_user || '|' || current_setting('work_mem')"))
}

func TestOthersCannotEnterTheSocketsDirectory(t *testing.T) {
	dir := reachableDir(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.ErrorContains(t, ownDir(filepath.Join(dir, "file"), nil), "not a directory")
	if os.Geteuid() == 0 {
		other := filepath.Join(dir, "other")
		require.NoError(t, os.Mkdir(other, 0o755))
		require.NoError(t, os.Chown(other, 4242, 4242))
		require.ErrorContains(t, ownDir(other, nil), "belongs to user 4242")
		require.NoError(t, os.Chmod(dir, 0o700))
		require.ErrorContains(t, reachable(other, &syscall.Credential{Uid: 4243, Gid: 4243}), "cannot enter")
	}
}

func TestAnInterruptedStartLeavesNothingRunning(t *testing.T) {
	c := config(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("given up"))
	_, err := Start(ctx, c)
	require.ErrorIs(t, err, context.Canceled)
	start(t, c)
}
