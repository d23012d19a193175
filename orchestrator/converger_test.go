package orchestrator_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"retune/orchestrator"
	"retune/proxy/rules"
)

// Rules that come into force behind Retune's back are put right, and whoever did it is told why.
func TestRulesChangedByHandGoBackLoudly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, p := newLedger(), &proxies{}
		l.pointer.Applied, l.pointer.AppliedGen = 1, 1
		var said bytes.Buffer
		c := &orchestrator.Converger{Target: p, Ledger: l, Log: slog.New(slog.NewTextHandler(&said, nil))}
		require.NoError(t, c.Converge(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { _ = c.Run(ctx) }()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		require.Empty(t, said.String(), "nothing to tell")
		p.mu.Lock()
		p.now = rules.Active{Version: 9, Hash: "by hand"}
		p.mu.Unlock()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, p.serves())
		require.Contains(t, said.String(), "retune rules apply FILE")
		require.Contains(t, said.String(), "found=9")
		stop()
		synctest.Wait()
	})
}

// A version that is made active while the target is asked is nobody's work behind Retune's back.
func TestAChangeThroughRetuneIsNoneByHand(t *testing.T) {
	l := newLedger()
	l.pointer.Applied, l.pointer.AppliedGen = 1, 1
	p := &moving{ledger: l}
	var said bytes.Buffer
	c := &orchestrator.Converger{Target: p, Ledger: l, Log: slog.New(slog.NewTextHandler(&said, nil))}
	require.NoError(t, c.Converge(t.Context()))
	ctx, stop := context.WithCancel(t.Context())
	p.asked = stop
	require.NoError(t, c.Run(ctx))
	require.Empty(t, said.String())
}

// moving is a target on which another version is put in force, through Retune, right before it is asked.
type moving struct {
	proxies
	ledger *ledger
	asked  func()
}

func (m *moving) Serving(ctx context.Context) (rules.Active, error) {
	m.ledger.mu.Lock()
	m.ledger.pointer.Generation, m.ledger.pointer.Hash = 2, "another"
	m.ledger.mu.Unlock()
	m.asked()
	return rules.Active{Version: 2, Hash: "another"}, nil
}
