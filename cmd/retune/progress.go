package main

import (
	"fmt"
	"io"
	"sync/atomic"
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
	text  atomic.Pointer[string] // what the bar's goroutine shows; nil before the first
	said  string
	saidE time.Time
}

func newProgress(o *output) *progress {
	p := &progress{w: o.err}
	if !terminal(o.err) {
		return p
	}
	p.show()
	return p
}

// show puts the bar on w, which is a terminal unless more says otherwise.
func (p *progress) show(more ...mpb.ContainerOption) {
	p.bars = mpb.New(append([]mpb.ContainerOption{mpb.WithOutput(p.w), mpb.WithWidth(40), mpb.WithRefreshRate(250 * time.Millisecond)}, more...)...)
	p.bar = p.bars.AddBar(1000, mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Percentage(decor.WCSyncSpace)),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			if text := p.text.Load(); text != nil {
				return *text
			}
			return ""
		})))
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
		p.text.Store(&text)
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
