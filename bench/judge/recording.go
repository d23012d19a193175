package main

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"retune/orchestrator"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
)

// Recorded runs of either profile.
var (
	//go:embed testdata/quick.csv
	quickCSV string
	//go:embed testdata/standard.csv
	standardCSV string
)

// recording is real pairs of equal arms.
type recording struct {
	profile loadtest.Profile
	busy    float64 // share of the machine's cores that was in use, on average
	runs    int
	inTurn  [][]verdict.Pair // rounds of the judged scenarios, in the order of time
	slowed  []slowedPairs
}

// slowedPairs are real pairs of which the candidate ran on backends that were slower by a factor.
type slowedPairs struct {
	factor float64
	pairs  []verdict.Pair
}

// slowedScenarios are steady with slower backends.
var slowedScenarios = []struct {
	name   string
	factor float64
}{{"steady-slow13", 1.3}, {"steady-slow20", 2}}

// block is how many rounds that followed each other in reality do so when they are drawn: the machine's drift stays in.
const block = 3

func (r recording) title() string {
	return fmt.Sprintf("recorded: %d real runs of %s length, %d rounds", r.runs, r.profile, len(r.inTurn))
}

// rounds draws whole rounds, in blocks of neighbours from anywhere; the last is the first's neighbour, so that each is
// drawn as often: the circular block bootstrap of Politis and Romano, "A circular block-resampling procedure for
// stationary data", in Exploring the Limits of Bootstrap (1992). What is drawn is never less than a pair: requests of
// one run are not independent of each other.
func (r recording) rounds(rnd *rand.Rand, n int) (rounds [][]verdict.Pair) {
	for len(rounds) < n {
		from := rnd.IntN(len(r.inTurn))
		for i := range block {
			var round []verdict.Pair
			for _, p := range r.inTurn[(from+i)%len(r.inTurn)] {
				round = append(round, swapped(rnd, p))
			}
			rounds = append(rounds, round)
		}
	}
	return rounds[:n]
}

// turn is when a pair was made: the calibration, and the pair's number within it.
type turn struct{ calibration, pair int }

func (t turn) compare(u turn) int {
	return cmp.Or(cmp.Compare(t.calibration, u.calibration), cmp.Compare(t.pair, u.pair))
}

// made are the pairs of a turn by scenario.
type made map[string]*verdict.Pair

// recordings are the two.
func recordings() (quick, standard recording, err error) {
	quick, err = readRecording(loadtest.Quick, quickCSV)
	if err == nil {
		standard, err = readRecording(loadtest.Standard, standardCSV)
	}
	return quick, standard, err
}

// readRecording reads what record wrote.
func readRecording(p loadtest.Profile, text string) (r recording, err error) {
	r.profile = p
	c := csv.NewReader(strings.NewReader(text))
	c.Comment = '#'
	lines, err := c.ReadAll()
	if err != nil {
		return r, fmt.Errorf("reading the runs of %s: %w", p, err)
	}
	if len(lines) == 0 || strings.Join(lines[0], ",") != columns {
		return r, fmt.Errorf("the runs of %s have other columns than %s", p, columns)
	}
	turns := map[turn]made{}
	for i, line := range lines[1:] {
		busy, err := parseRun(turns, line)
		if err != nil {
			return r, fmt.Errorf("run %d of %s: %w", i+1, p, err)
		}
		r.runs++
		r.busy += (busy - r.busy) / float64(r.runs)
	}
	for _, t := range slices.SortedFunc(maps.Keys(turns), turn.compare) {
		r.add(turns[t])
	}
	if len(r.inTurn) <= block {
		return r, fmt.Errorf("%d rounds of %s are too few to draw from", len(r.inTurn), p)
	}
	return r, nil
}

// parseRun puts a line's run into its pair, and says how busy the machine was.
func parseRun(turns map[turn]made, line []string) (busy float64, err error) {
	var n [12]float64
	var faults []error
	for i, text := range line {
		if i == 2 || i == 3 { // scenario and arm
			continue
		}
		n[i], err = strconv.ParseFloat(text, 64)
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return 0, err
	}
	t := turn{int(n[0]), int(n[1])}
	if turns[t] == nil {
		turns[t] = made{}
	}
	p := turns[t][line[2]]
	if p == nil {
		p = &verdict.Pair{Scenario: line[2]}
		turns[t][line[2]] = p
	}
	half := &p.Champion
	if orchestrator.Arm(line[3]) == orchestrator.ArmCandidate {
		half = &p.Candidate
	}
	*half = verdict.Measurement{Requests: int64(n[6]), RPS: n[7], P95MS: n[8], ErrorRate: n[9]}
	return n[11], nil
}

// add sorts the pairs of a turn: a round of the judged scenarios, if all of them are there, and slowed pairs.
func (r *recording) add(m made) {
	var round []verdict.Pair
	for _, name := range judged {
		if p := m[name]; p != nil && p.Champion.Requests > 0 && p.Candidate.Requests > 0 {
			round = append(round, *p)
		}
	}
	if len(round) == len(judged) {
		r.inTurn = append(r.inTurn, round)
	}
	for i, s := range slowedScenarios {
		normal, slow := m["steady"], m[s.name]
		if normal == nil || slow == nil {
			continue
		}
		if r.slowed == nil {
			r.slowed = make([]slowedPairs, len(slowedScenarios))
		}
		r.slowed[i].factor = s.factor
		r.slowed[i].pairs = append(r.slowed[i].pairs, // the halves of either are alike
			verdict.Pair{Scenario: "steady", Champion: normal.Champion, Candidate: slow.Candidate},
			verdict.Pair{Scenario: "steady", Champion: normal.Candidate, Candidate: slow.Champion})
	}
}
