package main

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"math"
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
	pairs   [][]verdict.Pair // of each judged scenario that was recorded, in the order of time
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

// block is how many pairs that followed each other in reality do so when they are drawn: the machine's drift stays in.
const block = 3

func (r recording) title() string {
	return fmt.Sprintf("recorded: %d real runs of %s length in %d scenarios", r.runs, r.profile, len(r.pairs))
}

// rounds draws whole pairs, in blocks of neighbours from anywhere; the last is the first's neighbour, so that each is
// drawn as often: the circular block bootstrap of Politis and Romano, "A circular block-resampling procedure for
// stationary data", in Exploring the Limits of Bootstrap (1992). Nothing less than a pair is drawn: requests of one run
// are not independent of each other. Scenarios are drawn apart, since a calibration makes one after the other.
func (r recording) rounds(rnd *rand.Rand, n int) [][]verdict.Pair {
	rounds := make([][]verdict.Pair, n)
	for _, pairs := range r.pairs {
		at := 0
		for i := range rounds {
			if i%block == 0 {
				at = rnd.IntN(len(pairs))
			}
			rounds[i] = append(rounds[i], swapped(rnd, pairs[at%len(pairs)]))
			at++
		}
	}
	return rounds
}

// recordings are the two.
func recordings() (quick, standard recording, err error) {
	quick, err = readRecording(loadtest.Quick, quickCSV)
	if err == nil {
		standard, err = readRecording(loadtest.Standard, standardCSV)
	}
	return quick, standard, err
}

// turn is when a pair was made: the calibration, and the pair's number within it.
type turn struct{ calibration, pair int }

func (t turn) compare(u turn) int {
	return cmp.Or(cmp.Compare(t.calibration, u.calibration), cmp.Compare(t.pair, u.pair))
}

// made are the pairs of a turn by scenario. Of a pair one half may be missing.
type made map[string]*verdict.Pair

// whole is a pair of which both halves are there, else nil.
func (m made) whole(scenario string) *verdict.Pair {
	if p := m[scenario]; p != nil && p.Champion.Requests > 0 && p.Candidate.Requests > 0 {
		return p
	}
	return nil
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
	turns, seen := map[turn]made{}, 0.0
	for i, line := range lines[1:] {
		busy, err := parseRun(turns, line)
		if err != nil {
			return r, fmt.Errorf("run %d of %s: %w", i+1, p, err)
		}
		r.runs++
		if !math.IsNaN(busy) { // nobody looked
			seen++
			r.busy += (busy - r.busy) / seen
		}
	}
	r.arrange(turns)
	if len(r.pairs) == 0 {
		return r, fmt.Errorf("no scenario of %s has %d pairs to draw from", p, block)
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

// arrange sorts pairs into the judged scenarios, and those whose candidate was slower.
func (r *recording) arrange(turns map[turn]made) {
	inTime := slices.SortedFunc(maps.Keys(turns), turn.compare)
	for _, name := range judged {
		var pairs []verdict.Pair
		for _, t := range inTime {
			if p := turns[t].whole(name); p != nil {
				pairs = append(pairs, *p)
			}
		}
		if len(pairs) >= block {
			r.pairs = append(r.pairs, pairs)
		}
	}
	for _, s := range slowedScenarios {
		slowed := slowedPairs{factor: s.factor}
		for _, t := range inTime {
			normal, slow := turns[t].whole("steady"), turns[t].whole(s.name)
			if normal == nil || slow == nil {
				continue
			}
			slowed.pairs = append(slowed.pairs, // the halves of either are alike
				verdict.Pair{Scenario: "steady", Champion: normal.Champion, Candidate: slow.Candidate},
				verdict.Pair{Scenario: "steady", Champion: normal.Candidate, Candidate: slow.Champion})
		}
		if len(slowed.pairs) > 0 {
			r.slowed = append(r.slowed, slowed)
		}
	}
}
