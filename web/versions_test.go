package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
)

func TestAFaultyProposalShowsEveryFaultWithItsPlaceAndChangesNothing(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m)
	bad := strings.NewReplacer("ROUND_ROBIN", "ROUND_ROBBIN", "cooldown: 10s", "cooldown: 10 parsecs").Replace(firstRules)
	w := ask(t, s, "POST", "/versions/propose", url.Values{"yaml": {bad}, "parent": {"5"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Contains(t, w.Body.String(), "things are wrong in this rule file")
	require.Contains(t, w.Body.String(), ">15:13<", "the place of the cooldown")
	require.Contains(t, w.Body.String(), "ROUND_ROBBIN", "what was typed is still there")
	w = ask(t, s, "POST", "/versions", url.Values{"yaml": {bad}, "parent": {"5"}, "reason": {"no"}})
	require.Equal(t, http.StatusUnprocessableEntity, w.Code)
	require.Len(t, m.versionList, 6)
}

func TestAProposalShowsItsDiffBeforeItIsApplied(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m)
	good := strings.Replace(m.versionList[4].YAML, "cooldown: 10s", "cooldown: 25s", 1)
	w := ask(t, s, "POST", "/versions/propose", url.Values{"yaml": {good}, "parent": {"5"}, "reason": {"calmer"}})
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.Contains(t, w.Body.String(), "<del>10s</del>")
	require.Contains(t, w.Body.String(), "<ins>25s</ins>")
	require.Len(t, m.versionList, 6, "looking at it made a version")
	w = ask(t, s, "POST", "/versions", url.Values{"yaml": {good}, "parent": {"5"}, "reason": {"calmer"}})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, "/versions/7", w.Header().Get("Location"))
	require.Equal(t, 7, m.pointer.Accepted)
	calmer := strings.Replace(good, "cooldown: 25s", "cooldown: 26s", 1)
	w = ask(t, s, "POST", "/versions", url.Values{"yaml": {calmer}, "parent": {"5"}, "reason": {"again"}})
	require.Equal(t, http.StatusConflict, w.Code, "v5 is not active any more")
}

func TestAProposalCanBeMeasuredInstead(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	w := ask(t, newServer(t, m), "POST", "/cycles", url.Values{"proposal": {firstRules}})
	require.Equal(t, http.StatusSeeOther, w.Code, w.Body)
	require.Equal(t, "file", m.cycleList[7].Generator)
	require.Equal(t, firstRules, m.cycleList[7].Proposal)
}

func TestARollbackShowsItsDiffAndNeedsAReason(t *testing.T) {
	m := story()
	m.end(7, orchestrator.RolledBack, "p95 rose.")
	s := newServer(t, m)
	page := ask(t, s, "GET", "/versions/2/activate", nil).Body.String()
	require.Contains(t, page, "Roll back to v2")
	require.Contains(t, page, "<del>P2C PEAK EWMA</del>")
	w := ask(t, s, "POST", "/versions/2/activate", url.Values{"reason": {"calmer at night"}})
	require.Equal(t, http.StatusSeeOther, w.Code)
	require.Equal(t, 2, m.pointer.Accepted)
}

func TestUnsupportedFiguresAreMarked(t *testing.T) {
	page := ask(t, newServer(t, story()), "GET", "/versions/3", nil).Body.String()
	require.Contains(t, page, "unsupported: 884 ms")
}

func TestExportsAreFiles(t *testing.T) {
	s := newServer(t, story())
	for path, want := range map[string][2]string{
		"/versions/diff/1..2.md": {"rules-v1-to-v2.md", "Verdict: kept"},
		"/versions/2/yaml":       {"decision-rules-v2.yml", "origin: local"},
		"/runs/2/series.csv":     {"run-2.csv", "second,requests,failed"},
	} {
		w := ask(t, s, "GET", path, nil)
		require.Equal(t, http.StatusOK, w.Code, path)
		require.Contains(t, w.Header().Get("Content-Disposition"), want[0], path)
		require.Contains(t, w.Body.String(), want[1], path)
	}
}

func TestListsArePagedAndFiltered(t *testing.T) {
	m := newMemory()
	for i := range 60 {
		c, err := m.Enqueue(t.Context(), orchestrator.Request{Target: "default"})
		require.NoError(t, err)
		m.end(c.ID, []orchestrator.Status{orchestrator.Kept, orchestrator.Failed}[i%2], "so it goes")
	}
	s := newServer(t, m)
	seen := 0
	for before := int64(0); ; {
		found, next, err := s.cyclesWith(t.Context(), "kept", 25, before)
		require.NoError(t, err)
		seen += len(found)
		if next == 0 {
			break
		}
		require.Len(t, found, 25)
		before = next
	}
	require.Equal(t, 30, seen, "each kept cycle stands on one page")
	page := ask(t, s, "GET", "/cycles?status=failed", nil).Body.String()
	require.Contains(t, page, "Older cycles")
	require.NotContains(t, page, ">kept</span>")
}
