// Package target is what rules are applied to: the bundled proxy, over its admin API.
package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
	"retune/ruleversions"
)

// ALB is the bundled proxy, or several that run the same rules and share the traffic.
type ALB struct {
	admins []string // base URLs of the admin listeners
	token  string
	client *http.Client

	// generation is the highest that was applied here. It goes with every change of the mode, so that a proxy refuses one
	// by an orchestrator that was replaced and does not know it yet.
	generation atomic.Int64
}

// New makes a target of one or more admin base URLs, such as http://127.0.0.1:9901. token is sent as a bearer token
// when it is not empty.
func New(admins []string, token string) (*ALB, error) {
	if len(admins) == 0 {
		return nil, errors.New("no proxy given: name its admin address with --proxy-admin")
	}
	a := &ALB{token: token, client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second}}}
	for _, s := range admins {
		u, err := url.Parse(s)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("proxy admin address %q: want a URL such as http://127.0.0.1:9901", s)
		}
		a.admins = append(a.admins, strings.TrimSuffix(s, "/"))
	}
	return a, nil
}

// Apply brings every proxy to the version, and returns nil only when each confirms it by hash and generation.
// Generation 0 is by hand: it is not ordered after anybody's change, so where somebody was faster it is a Refused of 412.
// With trial the rules stay out of the proxies' files.
func (a *ALB) Apply(ctx context.Context, v ruleversions.Version, generation int64, trial bool) error {
	return a.each(func(admin string) error {
		err := a.apply(ctx, admin, v, generation, trial)
		if refused := (*Refused)(nil); generation > 0 && errors.As(err, &refused) && refused.Status == http.StatusPreconditionFailed {
			err = a.apply(ctx, admin, v, generation, trial) // somebody was faster: once more, over what is in force now
		}
		if err != nil {
			return fmt.Errorf("applying v%d to the proxy at %s: %w", v.Number, admin, err)
		}
		a.applied(generation)
		return nil
	})
}

// applied notes a generation that a proxy has taken: from then on it refuses what comes under a lower one, whether or not the
// other proxies answer.
func (a *ALB) applied(generation int64) {
	for {
		highest := a.generation.Load()
		if generation <= highest || a.generation.CompareAndSwap(highest, generation) {
			return
		}
	}
}

// each calls every proxy at the same time, so that one that is down keeps none from being put right.
func (a *ALB) each(call func(admin string) error) error {
	var calls sync.WaitGroup
	errs := make([]error, len(a.admins))
	for i, admin := range a.admins {
		calls.Go(func() { errs[i] = call(admin) })
	}
	calls.Wait()
	return errors.Join(errs...)
}

func (a *ALB) apply(ctx context.Context, admin string, v ruleversions.Version, generation int64, trial bool) error {
	now, err := a.serving(ctx, admin)
	if err != nil || (now.Hash == v.Hash && now.Generation == generation && now.Trial == trial) {
		return err
	}
	return a.reload(ctx, admin, now, v, generation, trial)
}

func (a *ALB) reload(ctx context.Context, admin string, now rules.Active, v ruleversions.Version, generation int64, trial bool) error {
	head := http.Header{"Content-Type": {"application/yaml"}, "If-Match": {`"` + string(now.Hash) + `"`}}
	if generation > 0 {
		head.Set("Retune-Generation", strconv.FormatInt(generation, 10))
	}
	if trial {
		head.Set("Retune-Trial", "true")
	}
	var got rules.Active
	if err := a.call(ctx, http.MethodPost, admin+"/alb/rules/reload", head, []byte(v.YAML), &got); err != nil {
		return err
	}
	if got.Hash != v.Hash || got.Generation != generation {
		return fmt.Errorf("it answers sha256 %.12s, generation %d; want %.12s, %d", got.Hash, got.Generation, v.Hash, generation)
	}
	return nil
}

// Serving is what every proxy runs; an error when they differ. For several proxies BootID joins theirs and
// EffectiveAt is the latest, so that an equal answer means that nothing has changed in between on any of them.
func (a *ALB) Serving(ctx context.Context) (rules.Active, error) {
	var all rules.Active
	var boots []string
	for i, admin := range a.admins {
		one, err := a.serving(ctx, admin)
		if err != nil {
			return rules.Active{}, err
		}
		if i > 0 && (one.Hash != all.Hash || one.Generation != all.Generation) {
			return rules.Active{}, fmt.Errorf("the proxies differ: %s runs v%d (%.12s), %s runs v%d (%.12s)",
				a.admins[0], all.Version, all.Hash, admin, one.Version, one.Hash)
		}
		latest := all.EffectiveAt
		all = one
		if latest.After(one.EffectiveAt) {
			all.EffectiveAt = latest
		}
		boots = append(boots, one.BootID)
	}
	all.BootID = strings.Join(boots, ",")
	return all, nil
}

func (a *ALB) serving(ctx context.Context, admin string) (rules.Active, error) {
	s, err := a.status(ctx, admin)
	if err != nil {
		return rules.Active{}, err
	}
	return rules.Active{Version: s.Rules.Version, Hash: rules.Hash(s.Rules.Hash), Generation: s.Rules.Generation,
		Trial: s.Rules.Trial, BootID: s.BootID, EffectiveAt: s.Rules.EffectiveAt}, nil
}

// Status is what the first proxy says of itself.
func (a *ALB) Status(ctx context.Context) (steering.Status, error) { return a.status(ctx, a.admins[0]) }

func (a *ALB) status(ctx context.Context, admin string) (s steering.Status, err error) {
	return s, a.call(ctx, http.MethodGet, admin+"/alb/status", nil, nil, &s)
}

// FileRules is the YAML in the first proxy's file: what it runs, or ran before a trial that nobody ended. Reading it puts
// it in force. highest is the highest generation that any of the proxies runs.
func (a *ALB) FileRules(ctx context.Context) (yaml []byte, highest int64, err error) {
	for i, admin := range a.admins {
		now, err := a.serving(ctx, admin)
		if err != nil {
			return nil, 0, err
		}
		if highest = max(highest, now.Generation); i == 0 && now.Trial {
			if err := a.call(ctx, http.MethodPost, admin+"/alb/rules/reload", nil, nil, nil); err != nil {
				return nil, 0, fmt.Errorf("ending a trial that nobody ended: %w", err)
			}
		}
	}
	return yaml, highest, a.call(ctx, http.MethodGet, a.admins[0]+"/alb/rules", nil, nil, &yaml)
}

// SetMode sets every proxy's mode, under the highest generation that was applied.
func (a *ALB) SetMode(ctx context.Context, m steering.Mode) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return a.each(func(admin string) error {
		head := http.Header{"Content-Type": {"application/json"}}
		if g := a.generation.Load(); g > 0 {
			head.Set("Retune-Generation", strconv.FormatInt(g, 10))
		}
		if err := a.call(ctx, http.MethodPut, admin+"/alb/mode", head, body, nil); err != nil {
			return fmt.Errorf("setting the mode of the proxy at %s: %w", admin, err)
		}
		return nil
	})
}

// Decisions are all proxies' decisions since an instant, oldest first.
func (a *ALB) Decisions(ctx context.Context, since time.Time) ([]steering.Decision, error) {
	all, err := collect[steering.Decision](ctx, a, "decisions", since)
	slices.SortStableFunc(all, func(x, y steering.Decision) int { return x.At.Compare(y.At) })
	return all, err
}

// Snapshots are all proxies' snapshots since an instant, oldest first.
func (a *ALB) Snapshots(ctx context.Context, since time.Time) ([]traffic.Snapshot, error) {
	all, err := collect[traffic.Snapshot](ctx, a, "snapshots", since)
	slices.SortStableFunc(all, func(x, y traffic.Snapshot) int { return x.At.Compare(y.At) })
	return all, err
}

func collect[T any](ctx context.Context, a *ALB, what string, since time.Time) (all []T, err error) {
	for _, admin := range a.admins {
		var page struct {
			Items []T `json:"items"`
		}
		q := url.Values{"since": {since.UTC().Format(time.RFC3339Nano)}}
		if err := a.call(ctx, http.MethodGet, admin+"/alb/"+what+"?"+q.Encode(), nil, nil, &page); err != nil {
			return nil, fmt.Errorf("reading %s: %w", what, err)
		}
		all = append(all, page.Items...)
	}
	return all, nil
}

// maxAnswer bounds what is read of a proxy's answer, in bytes.
const maxAnswer = 64 << 20

// call makes one request; into is filled from JSON, or with the body itself when it is a *[]byte.
func (a *ALB) call(ctx context.Context, method, at string, head http.Header, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, at, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if head != nil {
		req.Header = head
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	res, err := a.client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	if res.StatusCode/100 != 2 {
		return problem(method, at, res.StatusCode, b)
	}
	switch to := into.(type) {
	case nil:
		return nil
	case *[]byte:
		*to = b
		return nil
	}
	return json.Unmarshal(b, into)
}

// ErrUnreachable is a proxy that does not answer.
var ErrUnreachable = errors.New("the proxy does not answer")

// Refused is a proxy's answer other than 2xx.
type Refused struct {
	Status int
	Detail string
}

func (r *Refused) Error() string { return fmt.Sprintf("refused with %d: %s", r.Status, r.Detail) }

func problem(method, at string, status int, body []byte) error {
	var p struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &p) != nil || p.Title+p.Detail == "" {
		p.Detail = fmt.Sprintf("%s %s", method, at)
	}
	if status == http.StatusUnauthorized {
		p.Detail += " (set RETUNE_ADMIN_TOKEN to the proxy's token)"
	}
	return &Refused{Status: status, Detail: strings.TrimSpace(p.Title + " " + p.Detail)}
}
