package web

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/orchestrator/detection"
)

// reads is a page's words, without markup.
func reads(t *testing.T, s *Server, path string) string {
	t.Helper()
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(ask(t, s, "GET", path, nil).Body.String(), " ")
	return html.UnescapeString(strings.Join(strings.Fields(text), " "))
}

func TestACyclesPageSaysWhetherSwitchesPaidAndHowTheTrafficWasNamed(t *testing.T) {
	page := reads(t, newServer(t, story()), "/cycles/1")
	require.Contains(t, page, "1 paid, 0 cost, 0 unclear.")
	require.Contains(t, page, "WEIGHTED ROUND ROBIN → LEAST CONNECTIONS")
	require.Contains(t, page, "p95 1400 → 1008 ms (-28%), beyond the ±11% that neighbouring windows of the same load differ by")
	require.Regexp(t, `The proxy named \d+ of \d+ windows \(\d+%\) as they truly were; by the candidate's thresholds .*; afterwards the classifier \(local\)`, page)
	require.NotContains(t, reads(t, newServer(t, story()), "/cycles/6"), "Detection of traffic states", "nothing was recorded")
}

func TestTheDetectionPageHasEveryFigure(t *testing.T) {
	m := story()
	s := newServer(t, m)
	page := reads(t, s, "/cycles/1/detection")
	for _, want := range []string{
		"By the thresholds of v1, in the baseline and in every pair.", "By those of v2, in every pair.", "By local, which sees a baseline run as a whole",
		"sawtooth hold-out", "detection.low_traffic_rps 5 → 18", "18 names 11 of 11 right", "of 3 runs",
	} {
		require.Contains(t, page, want)
	}
	var told struct {
		detection.Summary
		Runs []orchestrator.RunDetection `json:"runs"`
	}
	callAPI(t, s, "GET", "/cycles/1/detection", "", http.StatusOK, &told)
	require.Len(t, told.Runs, len(m.detections[1]))
	windows := 0
	for _, r := range told.Runs {
		if r.Arm != orchestrator.ArmCandidate {
			windows += len(r.Windows)
		}
	}
	require.Equal(t, windows, told.Champion.Windows+told.Champion.Across, "no window is lost")
	require.Len(t, told.Suggestions, 1)
	callAPI(t, s, "GET", "/cycles/99/detection", "", http.StatusNotFound, nil)
	callAPI(t, s, "GET", "/cycles/99/switches", "", http.StatusNotFound, nil)
	require.Contains(t, reads(t, s, "/cycles/6/detection"), "Nothing is recorded")
}

// Both arms of a calibration run the champion.
func TestACalibrationHasNoCandidatesThresholds(t *testing.T) {
	m := story()
	m.cycleList[0].Kind = orchestrator.Calibrate
	page := reads(t, newServer(t, m), "/cycles/1/detection")
	require.Contains(t, page, "By the thresholds of v1")
	require.NotContains(t, page, "candidate")
}
