package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
	"retune/orchestrator/loadtest"
	"retune/orchestrator/verdict"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

// DefaultAddr is where the pages are served when nothing else is said.
const DefaultAddr = "127.0.0.1:8090"

// Config is what the pages are built from. Starter, History and Schedules are needed; all else has a default.
type Config struct {
	Starter   Starter
	History   History
	Schedules Schedules

	// Proxy asks the proxy how it is; nil: no proxy is known, and the pages say so.
	Proxy func(ctx context.Context) (steering.Status, error)
	// Outlooks says what cycles can tell on this machine before they start; nil: nothing is said of it.
	Outlooks func(ctx context.Context, requests ...orchestrator.Request) ([]orchestrator.Outlook, error)
	// Snapshots is what the proxies recorded since an instant; nil: a lint replays nothing.
	Snapshots func(ctx context.Context, since time.Time) ([]traffic.Snapshot, error)
	// Ready answers /readyz: each check by its name, nil for passed. A nil function has no checks.
	Ready func(ctx context.Context) map[string]error
	// Metrics serves /metrics (default: client_golang's default registry).
	Metrics http.Handler

	// Listener takes precedence over Addr (default DefaultAddr). The server closes it.
	Listener net.Listener
	Addr     string
	// Token is asked of every caller but probes: as a bearer token, or as a browser's Basic password. Empty: anyone
	// on this machine may; New refuses an empty token on any address but loopback.
	Token string

	Choices Choices
	Caps    advisor.Caps // what calls of a model may cost, to be shown
	Target  string       // name of the target that cycles tune (default "default")
	Version string       // of the program (default "dev")
	Log     *slog.Logger
}

// Choices is what a new cycle can be made of. The first available of each list is the default.
type Choices struct {
	Profiles   []Choice       `json:"profiles"`   // default: quick, standard, nightly
	Generators []Choice       `json:"generators"` // default: local
	Drivers    []Choice       `json:"drivers"`    // default: auto, k6, builtin
	Limits     verdict.Limits `json:"limits"`     // zero: verdict.DefaultLimits
}

// Choice is one option of a list.
type Choice struct {
	Name    string `json:"name"`
	About   string `json:"about"`             // a few words, e.g. "7 to 11 minutes"
	Missing string `json:"missing,omitempty"` // why it can't be chosen and how to mend it, e.g. "set OPENAI_API_KEY"; empty: it can
}

// filled puts the defaults in place of what is not set, and refuses what can't be served.
func (c Config) filled() (Config, error) {
	if c.Starter == nil || c.History == nil || c.Schedules == nil {
		return c, errors.New("web: Starter, History and Schedules are needed")
	}
	c.Addr = cmp.Or(c.Addr, DefaultAddr)
	if c.Listener != nil {
		c.Addr = c.Listener.Addr().String()
	}
	if c.Token == "" && !Loopback(c.Addr) {
		return c, fmt.Errorf("serving the pages on %s without a token would open them to the network: "+
			"set RETUNE_AUTH_TOKEN, or listen on 127.0.0.1", c.Addr)
	}
	if c.Metrics == nil {
		c.Metrics = promhttp.Handler()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Target = cmp.Or(c.Target, "default")
	c.Version = cmp.Or(c.Version, "dev")
	c.Choices = c.Choices.filled()
	return c, nil
}

func (c Choices) filled() Choices {
	if len(c.Profiles) == 0 {
		c.Profiles = []Choice{
			{Name: string(loadtest.Quick), About: "7 to 11 minutes"},
			{Name: string(loadtest.Standard), About: "about an hour"},
			{Name: string(loadtest.Nightly), About: "several hours"},
		}
	}
	if len(c.Generators) == 0 {
		c.Generators = []Choice{{Name: "local", About: "no model: measures every algorithm and picks what is best beyond noise"}}
	}
	if len(c.Drivers) == 0 {
		c.Drivers = []Choice{
			{Name: string(loadtest.Auto), About: "k6 where it is installed"},
			{Name: string(loadtest.K6), About: "your own k6"},
			{Name: string(loadtest.Builtin), About: "the built-in driver"},
		}
	}
	c.Limits = cmp.Or(c.Limits, verdict.DefaultLimits())
	return c
}

// pick returns name when it is an available choice, the first available one for an empty name, and else an
// error that lists what there is. what is the list's name in that error.
func pick(what, name string, from []Choice) (string, error) {
	i := slices.IndexFunc(from, func(c Choice) bool {
		return c.Name == name || name == "" && c.Missing == ""
	})
	if i < 0 {
		return "", invalid("%s %q is not known here: choose one of %s", what, name, names(from))
	}
	if from[i].Missing != "" {
		return "", invalid("%s %q can't be used: %s", what, name, from[i].Missing)
	}
	return from[i].Name, nil
}

// Loopback reports whether a listening address can be reached from this machine alone.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
