// Command judge measures the judge: how often it keeps, rolls back or can't tell candidates whose true difference is
// known, on recorded and on simulated machines, beside a rule that compares one run with one run, and which of its goals
// are met. `make bench-judge` calls it; docs/judge.md shows what it printed.
//
// Recorded machines are pairs of real runs of equal arms (testdata) from which whole pairs are drawn; a
// candidate's p95 is multiplied by the true ratio. Simulated ones are models with drift, bursts and heavy tails, one of
// them fitted to the recording. `judge record` records anew.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"retune/orchestrator/verdict"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := dispatch(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(1)
	}
}

// dispatch is the whole program: the benchmark, or the recording of runs for it.
func dispatch(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == "record" {
		return recordTo(ctx, args[1:], stdout, stderr)
	}
	f := flag.NewFlagSet("judge", flag.ContinueOnError)
	f.SetOutput(stderr)
	cycles := f.Int("cycles", 2000, "judge so many cycles of each kind")
	seed := f.Uint64("seed", 1, "draw by this seed; the same one gives the same figures")
	form := f.String("o", "table", "how to print: table or json")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || *cycles < 1 || *form != "table" && *form != "json" {
		return errors.New("-cycles is from 1, -o is table or json, and the only other argument is record: see -help")
	}
	quick, standard, err := recordings()
	if err != nil {
		return err
	}
	b := benchmark{cycles: *cycles, seed: *seed, judge: verdict.Judge}
	done, err := b.run(ctx, trialsOn(quick, standard))
	if err != nil {
		return err
	}
	if *form == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		return e.Encode(done)
	}
	quick.print(stdout)
	standard.print(stdout)
	for _, d := range done {
		d.print(stdout)
	}
	printWorst(stdout, sum(done))
	return nil
}

// recordTo writes a recording to stdout.
func recordTo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("judge record", flag.ContinueOnError)
	f.SetOutput(stderr)
	r := recorder{out: stdout}
	f.StringVar(&r.server, "server", "http://127.0.0.1:8090", "base `URL` of the web server of a running `retune up`")
	f.StringVar(&r.profile, "profile", "quick", "how long the runs are: quick, standard or nightly")
	f.StringVar(&r.driver, "driver", "builtin", "what produces the load: builtin or k6")
	f.StringVar(&r.commit, "commit", "unknown", "what to say of the program that is measured")
	f.Func("scenarios", "comma-separated `NAMES` (default "+strings.Join(judged, ",")+")", func(s string) error {
		r.scenarios = strings.Split(s, ",")
		return nil
	})
	n := f.Int("calibrations", 10, "make so many, each of 3 pairs per scenario (standard 5, nightly 8)")
	if err := f.Parse(args); err != nil {
		return err
	}
	if len(r.scenarios) == 0 {
		r.scenarios = judged
	}
	return r.record(ctx, *n, stderr)
}
