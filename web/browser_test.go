package web

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"retune/orchestrator"
)

//go:embed testdata/axe/axe.min.js
var axe string

var screenshots = flag.String("screenshots", "", "folder to write a picture of each page to")

// browser is one tab. It remembers what the pages complained about, guarded by mu.
type browser struct {
	t    *testing.T
	ctx  context.Context
	mu   sync.Mutex
	said []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := findChromium()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()), chromedp.Flag("disable-gpu", true), chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("hide-scrollbars", true))
	ctx, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(ctx)
	t.Cleanup(closeTab)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx}
	listen(b, log.EntryAdded, func(e log.EventEntryAdded) string {
		if e.Entry.Level != log.EntryLevelError {
			return ""
		}
		return e.Entry.Text + " " + e.Entry.URL
	})
	listen(b, runtime.ExceptionThrown, func(e runtime.EventExceptionThrown) string { return fmt.Sprint(e.ExceptionDetails) })
	listen(b, runtime.ConsoleAPICalled, func(e runtime.EventConsoleAPICalled) string {
		if e.Type != runtime.ConsoleAPICalledTypeError {
			return ""
		}
		return fmt.Sprint("console.error ", e.Args)
	})
	return b
}

func findChromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no chromium here: the pages are not tested in a browser (apt-get install chromium)")
}

// listen notes what complaint makes of each event, until the tab closes.
func listen[E any](b *browser, ev cdp.Event[E], complaint func(E) string) {
	events := chromedp.Events(b.ctx, ev)
	go func() {
		for e, err := range events {
			if err != nil {
				return
			}
			if text := complaint(e); text != "" {
				b.mu.Lock()
				b.said = append(b.said, text)
				b.mu.Unlock()
			}
		}
	}()
}

// complaints returns what was said since it was last asked.
func (b *browser) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	said := b.said
	b.said = nil
	return said
}

func (b *browser) open(address string) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.Navigate(address)), address)
	b.wait("document.readyState === 'complete' && [...document.querySelectorAll('[data-chart]')].every(f => f.querySelector('canvas'))")
}

// wait until a condition holds in the page. A page on its way to another answers with an error: it is asked again.
func (b *browser) wait(condition string) {
	b.t.Helper()
	var last error
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var holds bool
		if holds, last = chromedp.Run(b.ctx, chromedp.Evaluate[bool]("Boolean("+condition+")")); holds {
			return
		}
	}
	said, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
	b.t.Fatalf("%s never held (%v); the page says: %.900s", condition, last, said)
}

func evaluate[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script))
	require.NoError(b.t, err, script)
	return v
}

func (b *browser) theme(name string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	})
	require.NoError(b.t, err)
}

func (b *browser) width(pixels int64) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.EmulateViewport(pixels, 900)))
}

// accessible returns axe's findings, one line each.
func (b *browser) accessible(options string) []string {
	b.t.Helper()
	return evaluateLater[[]string](b, `axe.run(document, {resultTypes: ["violations"], preload: false, ...`+options+`}).then(r => r.violations.flatMap(v =>
		v.nodes.map(n => v.id + ": " + n.target.join(" ") + " | " + n.failureSummary)))`)
}

// evaluateLater evaluates a promise.
func evaluateLater[T any](b *browser, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, func(p *runtime.EvaluateParams) { p.AwaitPromise = new(true) }))
	require.NoError(b.t, err, script)
	return v
}

// overflow names what is wider than the page.
const overflow = `(() => {
	const wide = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= wide) return [];
	return [...document.querySelectorAll("main *, header *")].filter(e => e.getBoundingClientRect().right > wide + 1 && !e.closest(".scroll, pre"))
		.slice(0, 5).map(e => e.tagName + "." + e.className + " " + Math.round(e.getBoundingClientRect().right));
})()`

func TestEveryPageIsAccessibleQuietAndFitsATelephone(t *testing.T) {
	b := newBrowser(t)
	base, _ := serve(t, story())
	for _, path := range pages {
		b.width(1280)
		b.theme("light")
		b.open(base + path)
		b.width(390)
		b.wait(`[...document.querySelectorAll(".uplot")].every(u => u.offsetWidth <= u.parentElement.clientWidth)`)
		require.Empty(t, evaluate[[]string](b, overflow), "%s is wider than 390 pixels", path)
		b.width(1280)
		require.Empty(t, b.complaints(), path)
		evaluate[chromedp.Void](b, axe)
		require.Empty(t, b.accessible("{}"), "%s, light", path)
		b.theme("dark") // changes colours alone
		require.Empty(t, b.accessible(`{runOnly: ["color-contrast"]}`), "%s, dark", path)
		b.complaints() // axe's own styles meet the content policy
	}
}

func TestARunningCycleIsFollowedToItsVerdict(t *testing.T) {
	m := story()
	b := newBrowser(t)
	base, _ := serve(t, m)
	b.open(base + "/cycles/7")
	b.wait(`document.body.innerText.includes("pair 2 of 4, burst, candidate v6")`)
	unlock := m.locked()
	live := m.live[7]
	live.Detail, live.At = "pair 3 of 4, steady, champion v5", time.Now()
	m.live[7] = live
	unlock()
	b.wait(`document.body.innerText.includes("pair 3 of 4, steady, champion v5")`)
	b.open(base + "/cycles/7") // a reload loses nothing
	b.wait(`document.body.innerText.includes("pair 3 of 4, steady, champion v5")`)
	m.end(7, orchestrator.RolledBack, "p95 in burst rose by 40%.")
	b.wait(`document.body.innerText.includes("v6 was rolled back.")`)
	require.Empty(t, b.complaints())
}

func TestACycleCanBeStartedByKeyboard(t *testing.T) {
	m := newMemory()
	b := newBrowser(t)
	base, _ := serve(t, m)
	b.open(base + "/")
	b.press(kb.Tab)
	require.Equal(t, "Skip to the content", evaluate[string](b, "document.activeElement.textContent"))
	b.press(kb.Enter)
	for range 10 {
		b.press(kb.Tab)
		if evaluate[string](b, "document.activeElement.id") == "run-cycle" {
			break
		}
	}
	require.Equal(t, "run-cycle", evaluate[string](b, "document.activeElement.id"), "Tab doesn't reach the button")
	require.NotEqual(t, "none", evaluate[string](b, "getComputedStyle(document.activeElement).outlineStyle"), "the focus can't be seen")
	b.press(kb.Enter)
	b.wait(`location.pathname === "/cycles/1"`)
	c, err := m.Cycle(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, orchestrator.Queued, c.Status)
}

func (b *browser) press(key string) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, chromedp.KeyEvent(key)))
}

func TestTheThemeCanBeChosen(t *testing.T) {
	b := newBrowser(t)
	base, _ := serve(t, newMemory())
	b.theme("light")
	b.open(base + "/")
	light := evaluate[string](b, "getComputedStyle(document.documentElement).backgroundColor")
	evaluate[chromedp.Void](b, `for (let i = 0; i < 2; i++) document.getElementById("theme").click()`)
	require.NotEqual(t, light, evaluate[string](b, "getComputedStyle(document.documentElement).backgroundColor"))
	b.open(base + "/cycles")
	require.Equal(t, "dark", evaluate[string](b, "document.documentElement.dataset.theme"), "the choice is forgotten")
}

// TestScreenshots writes a picture of each page: go test ./web -run TestScreenshots -screenshots DIR.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("pictures are written with -screenshots DIR")
	}
	b := newBrowser(t)
	base, _ := serve(t, story())
	empty, _ := serve(t, newMemory(), func(c *Config) { c.Proxy = nil })
	require.NoError(t, os.MkdirAll(*screenshots, 0o755))
	shots := map[string]string{"empty-home": empty + "/", "error-409": base + "/nowhere"}
	for _, path := range pages {
		name := strings.NewReplacer("/", "-", "?", "-", "=", "-", "..", "-to-").Replace(strings.Trim(path, "/"))
		if name == "" {
			name = "home"
		}
		shots[name] = base + path
	}
	for name, address := range shots {
		b.open(address)
		for _, theme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 390} {
				b.theme(theme)
				b.width(width)
				picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
				require.NoError(t, err)
				file := filepath.Join(*screenshots, fmt.Sprintf("%s-%d-%s.png", name, width, theme))
				require.NoError(t, os.WriteFile(file, picture, 0o644))
			}
		}
	}
}
