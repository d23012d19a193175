package main

import (
	"fmt"
	"io"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"retune/orchestrator"
)

// progress shows how a cycle stands: a bar on a terminal, else a line for each new step and every ten seconds.
type progress struct {
	w     io.Writer
	bars  *mpb.Progress // nil: no terminal
	bar   *mpb.Bar
	text  string
	said  string
	saidE time.Time
}

func newProgress(o *output) *progress {
	p := &progress{w: o.err}
	if !terminal(o.err) {
		return p
	}
	p.bars = mpb.New(mpb.WithOutput(o.err), mpb.WithWidth(40), mpb.WithRefreshRate(250*time.Millisecond))
	p.bar = p.bars.AddBar(1000, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Percentage(decor.WCSyncSpace)),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return p.text })))
	return p
}

// live shows the latest.
func (p *progress) live(l orchestrator.Live) {
	text := fmt.Sprintf("%s: %s", l.Status, l.Detail)
	if l.Load.RPS > 0 {
		text += fmt.Sprintf("  %.0f rps  p95 %.0f ms  errors %.1f%%", l.Load.RPS, l.Load.P95MS, 100*l.Load.ErrorRate)
	}
	if l.Remaining > 0 {
		text += fmt.Sprintf("  about %s left", l.Remaining.Round(time.Second))
	}
	if p.bar != nil {
		p.text = text
		p.bar.SetCurrent(int64(1000 * l.Share))
		return
	}
	head := string(l.Status) + l.Detail
	if head == p.said && time.Since(p.saidE) < 10*time.Second {
		return
	}
	p.said, p.saidE = head, time.Now()
	fmt.Fprintf(p.w, "%3.0f%%  %s\n", 100*l.Share, text)
}

// end takes the bar away.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.Abort(true)
		p.bars.Wait()
	}
}
