package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/user"
	"strconv"
	"strings"

	"retune/proxy/traffic"
	"retune/ruleversions"
)

type rulesCmd struct {
	List     rulesListCmd     `cmd:"" default:"withargs" help:"List the rule versions, newest first."`
	Show     rulesShowCmd     `cmd:"" help:"Show one version: its rules and their reasons."`
	Diff     rulesDiffCmd     `cmd:"" help:"Show what changes from one version to another, with the reasons."`
	Apply    rulesApplyCmd    `cmd:"" help:"Store a rule file as a version and put it in force."`
	Rollback rulesRollbackCmd `cmd:"" help:"Put an earlier version in force again."`
	Validate rulesValidateCmd `cmd:"" help:"Check a rule file; prints every fault as FILE:line:column: text."`
	Lint     rulesLintCmd     `cmd:"" help:"Look for what can't work in a rule file, by a replay over recorded snapshots too."`
	Export   rulesExportCmd   `cmd:"" help:"Write a version's YAML to stdout."`
}

// versionCall makes one call of the versions' API.
func (f serverFlags) versionCall(ctx context.Context, method, path string, in, out any) error {
	api, err := f.client()
	if err != nil {
		return err
	}
	return api.call(ctx, method, "/versions"+path, in, out)
}

// versionNumber takes 7 and v7.
func versionNumber(s string) (string, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "v"))
	if err != nil || n < 1 {
		return "", usage("%q is no rule version: want a number such as 7 or v7", s)
	}
	return strconv.Itoa(n), nil
}

type rulesListCmd struct {
	Limit int `help:"How many at most." default:"50"`
	tableFlags
	serverFlags
}

func (c *rulesListCmd) Run(ctx context.Context, o *output) error {
	var page struct {
		Items []ruleversions.Version `json:"items"`
	}
	if err := c.versionCall(ctx, http.MethodGet, fmt.Sprintf("?limit=%d", c.Limit), nil, &page); err != nil {
		return err
	}
	var rows [][]string
	for _, v := range page.Items {
		rows = append(rows, []string{fmt.Sprintf("v%d", v.Number), string(v.Status), string(v.Origin), v.Author,
			v.Created.Local().Format("2006-01-02 15:04"), unsupportedCount(v), firstLine(v.Summary)})
	}
	return c.print(o, page.Items, []string{"version", "status", "origin", "author", "created", "unsupported", "summary"}, rows, "unsupported")
}

// unsupportedCount is how many figures of a version's reasons are not in its evidence; empty: none.
func unsupportedCount(v ruleversions.Version) string {
	if n := v.Unsupported(); n > 0 {
		return strconv.Itoa(n)
	}
	return ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if r := []rune(line); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return line
}

type rulesShowCmd struct {
	Version string `arg:"" help:"Version, such as 7."`
	tableFlags
	serverFlags
}

func (c *rulesShowCmd) Run(ctx context.Context, o *output) error {
	n, err := versionNumber(c.Version)
	if err != nil {
		return err
	}
	var v ruleversions.Version
	if err := c.versionCall(ctx, http.MethodGet, "/"+n, nil, &v); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range traffic.States() {
		rows = append(rows, []string{string(s), string(v.Rules.Rules[s].Algorithm), reasonText(v, s)})
	}
	for _, r := range v.Reasons {
		if value, is := settingOf(v, r.Path); is {
			rows = append(rows, []string{r.Path, value, r.Marked()})
		}
	}
	return c.print(o, v, []string{"what", "value", "reason"}, rows)
}

// settingOf is the value of a threshold or gate by its path.
func settingOf(v ruleversions.Version, path string) (value string, is bool) {
	for _, s := range v.Rules.Settings() {
		if s.Path == path {
			return s.Value, true
		}
	}
	return "", false
}

// reasonText is a state's reason, with what of it the evidence does not hold.
func reasonText(v ruleversions.Version, s traffic.State) string {
	reason := ruleversions.Reason{Text: v.Rules.Rules[s].Reason}
	for _, r := range v.Reasons {
		if r.Path == "rules."+string(s) {
			reason.Unsupported = r.Unsupported
		}
	}
	return reason.Marked()
}

type rulesDiffCmd struct {
	From string `arg:"" help:"Version to compare from."`
	To   string `arg:"" help:"Version to compare to."`
	Text bool   `help:"Line by line, as a unified diff of the YAML."`
	tableFlags
	serverFlags
}

func (c *rulesDiffCmd) Run(ctx context.Context, o *output) error {
	from, err := versionNumber(c.From)
	if err != nil {
		return err
	}
	to, err := versionNumber(c.To)
	if err != nil {
		return err
	}
	path := "/" + from + "/diff/" + to
	if c.Text || c.Output == "markdown" {
		format := "markdown"
		if c.Text {
			format = "text"
		}
		var b []byte
		if err := c.versionCall(ctx, http.MethodGet, path+"/"+format, nil, &b); err != nil {
			return err
		}
		_, err := o.out.Write(b)
		return err
	}
	var d ruleversions.Diff
	if err := c.versionCall(ctx, http.MethodGet, path, nil, &d); err != nil {
		return err
	}
	var rows [][]string
	for _, r := range d.Rules {
		if r.Changed {
			rows = append(rows, []string{string(r.State), r.BeforeText(), r.AfterText(), ruleversions.Reason{Text: r.Reason, Unsupported: r.Unsupported}.Marked()})
		}
	}
	for _, s := range d.Settings {
		rows = append(rows, []string{s.Path, s.Before, s.After, ruleversions.Reason{Text: s.Reason, Unsupported: s.Unsupported}.Marked()})
	}
	return c.print(o, d, []string{"what", "v" + from, "v" + to, "reason"}, rows)
}

type rulesApplyCmd struct {
	File   string `arg:"" help:"Rule file, or - for stdin."`
	Reason string `help:"Why, for the history." required:""`
	Force  bool   `help:"Make a version of it even when the rules in force do the same."`
	serverFlags
}

func (c *rulesApplyCmd) Run(ctx context.Context, o *output) error {
	b, err := checkedRules(c.File)
	if err != nil {
		return err
	}
	var v struct {
		ruleversions.Version
		Same bool `json:"already_in_force"`
	}
	in := map[string]any{"yaml": string(b), "reason": c.Reason, "force": c.Force, "author": whoami()}
	if err := c.versionCall(ctx, http.MethodPost, "", in, &v); err != nil {
		return err
	}
	if v.Same {
		fmt.Fprintf(o.err, "These rules do what v%d does, so nothing was changed; --force makes a version of them all the same.\n", v.Number)
		_, err = fmt.Fprintf(o.out, "already in force as v%d\n", v.Number)
		return err
	}
	_, err = fmt.Fprintf(o.out, "v%d is in force\n", v.Number)
	return err
}

// whoami is the account's name, for the history; empty when it has none.
func whoami() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

type rulesRollbackCmd struct {
	Version string `arg:"" help:"Version to put in force, such as 7."`
	Reason  string `help:"Why, for the history." required:""`
	serverFlags
}

func (c *rulesRollbackCmd) Run(ctx context.Context, o *output) error {
	n, err := versionNumber(c.Version)
	if err != nil {
		return err
	}
	if err := c.versionCall(ctx, http.MethodPost, "/"+n+"/activate", map[string]string{"reason": c.Reason, "actor": whoami()}, nil); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.out, "v%s is in force\n", n)
	return err
}

type rulesExportCmd struct {
	Version string `arg:"" help:"Version, such as 7."`
	serverFlags
}

func (c *rulesExportCmd) Run(ctx context.Context, o *output) error {
	n, err := versionNumber(c.Version)
	if err != nil {
		return err
	}
	var v ruleversions.Version
	if err := c.versionCall(ctx, http.MethodGet, "/"+n, nil, &v); err != nil {
		return err
	}
	_, err = io.WriteString(o.out, v.YAML)
	return err
}
