package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// TestMain lets the test's own program stand in for the programs that the drivers run: Retune's load command, a k6
// that misbehaves on command, and a parent that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "load":
			os.Exit(childLoad())
		case "parent":
			os.Exit(childParent(os.Args[2]))
		case "version", "inspect", "run":
			os.Exit(standIn(os.Getenv("STANDIN"), os.Args[1:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// childLoad is what cmd/retune's load command does.
func childLoad() int {
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var s Scenario
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := Generate(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if ctx.Err() != nil {
			return 130
		}
		return 1
	}
	return 0
}

// childParent runs a scenario (JSON on stdin) with the driver at path or, if that is "builtin", with the built-in one.
func childParent(path string) int {
	var s Scenario
	if err := json.NewDecoder(os.Stdin).Decode(&s); err != nil {
		return 2
	}
	d, c := K6, Config{K6: path}
	if path == string(Builtin) {
		d, c = Builtin, Config{}
	}
	r, err := Choose(context.Background(), d, c)
	if err == nil {
		_, err = r.Run(context.Background(), s, nil)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// standIn is a k6 that behaves as the first word of its mode says, after writing its process id where the second says.
func standIn(mode string, args []string) int {
	mode, pidFile, _ := strings.Cut(mode, " ")
	switch args[0] {
	case "version":
		answer, ok := strings.CutPrefix(mode, "version:")
		if !ok {
			answer = "k6_v1.8.1_(go1.26.8,_linux/amd64)"
		}
		fmt.Println(strings.ReplaceAll(answer, "_", " "))
		return 0
	case "inspect":
		if mode == "refused" {
			fmt.Fprintln(os.Stderr, "SyntaxError: unexpected token")
			return 107
		}
		fmt.Println(`{"scenarios":{"main":{"executor":"constant-arrival-rate","rate":130,"timeUnit":"1s","duration":"1s","startTime":null}}}`)
		return 0
	}
	if pidFile != "" {
		_ = os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())), 0o600)
	}
	return standInRun(mode, args)
}

func standInRun(mode string, args []string) int {
	replay, _ := os.ReadFile(os.Getenv("FIXTURE"))
	kind, code, _ := strings.Cut(mode, ":")
	switch kind {
	case "args":
		fmt.Fprintln(os.Stderr, strings.Join(args, " "))
		fmt.Fprintln(os.Stderr, "ENV", strings.Join(os.Environ(), " "))
	case "exit":
		os.Stdout.Write(replay)
		n, _ := strconv.Atoi(code)
		return n
	case "nothing":
		return 0
	case "silent":
		time.Sleep(time.Hour)
	case "deaf": // ignores SIGINT
		signal.Ignore(os.Interrupt)
		os.Stdout.Write(replay)
		time.Sleep(time.Hour)
	case "garbage":
		for range 400 {
			fmt.Println("warning: this is no JSON")
		}
	case "overlong":
		fmt.Println(strings.Repeat("x", 10<<20))
	case "flood":
		w := bufio.NewWriterSize(os.Stdout, 1<<20)
		for {
			fmt.Fprintf(w, "%0100d\n", 1)
		}
	case "endless":
		for {
			os.Stdout.Write(replay)
			time.Sleep(20 * time.Millisecond)
		}
	case "half": // dies in the middle of a line
		os.Stdout.Write(replay[:len(replay)/2])
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "orphan": // leaves a grandchild that holds stdout open
		c := exec.Command(os.Args[0], "run")
		c.Env, c.Stdout = []string{"STANDIN=silent " + filepath.Join(filepath.Dir(os.Getenv("FIXTURE")), "none", "x")}, os.Stdout
		_ = c.Start()
	}
	_, _ = io.Copy(os.Stdout, bytes.NewReader(replay))
	return 0
}

// standInK6 is a program that behaves like k6, except for its mode.
func standInK6(t testing.TB, mode string) string {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	fixture, err := filepath.Abs("testdata/k6-stream.ndjson")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "k6")
	text := fmt.Sprintf("#!/bin/sh\nSTANDIN='%s' FIXTURE='%s' exec '%s' \"$@\"\n", mode, fixture, exe)
	syscall.ForkLock.RLock() // as k6test.Script, which can't be used from within this package
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
	return path
}

// fixtureShape asks for as many requests as the recorded stream has.
func fixtureShape() Shape {
	return Shape{Name: "own", Description: "As recorded.", Clients: 1, Phases: []Phase{{Name: "all", Duration: Duration(time.Second), From: 130, To: 130}}}
}

// standInRunner is a k6 runner with a stand-in; one that would be waited for in vain is not waited for long.
func standInRunner(t testing.TB, mode string) *Runner {
	t.Helper()
	r := &Runner{Driver: K6, Version: "v1.8.1", program: k6Program{standInK6(t, mode)}, scratch: t.TempDir()}
	r.patience = patience{silence: time.Minute, overrun: time.Minute, grace: 300 * time.Millisecond}
	switch name, _, _ := strings.Cut(mode, " "); name {
	case "silent", "deaf":
		r.silence = time.Second
	case "endless":
		r.overrun = time.Second
	}
	return r
}

func scenarioFor(s Shape) Scenario {
	return Scenario{Shape: s, Target: "http://127.0.0.1:1", Timeout: 200 * time.Millisecond}
}
