package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"

	"retune/proxy/rules"
	"retune/proxy/steering"
	"retune/proxy/traffic"
)

type rulesLintCmd struct {
	File      string `arg:"" help:"Rule file, or - for stdin."`
	Snapshots string `help:"Replay over these instead of the server's last hour: the JSON of a proxy's GET /alb/snapshots, or a list." type:"existingfile" placeholder:"FILE"`
	tableFlags
	serverFlags
}

// Help is what --help says below the command's line.
func (*rulesLintCmd) Help() string {
	return "Exit codes: 0 nothing, or warnings alone; 2 the file is invalid, or a cycle would refuse it: it contradicts itself or flaps."
}

// linted is what the server, or a replay here, says of a rule file.
type linted struct {
	Remarks []rules.Remark  `json:"remarks"`
	Replay  steering.Report `json:"replay"`
	Over    string          `json:"over"`
	Same    bool            `json:"same_as_active,omitempty"`
}

// Run prints every remark, and how often each state's rule was in force in the replay.
func (c *rulesLintCmd) Run(ctx context.Context, o *output) error {
	b, err := checkedRules(c.File)
	if err != nil {
		return err
	}
	var found linted
	if c.Snapshots != "" {
		found, err = c.here(b)
	} else {
		found, err = c.there(ctx, b)
	}
	if err != nil {
		return err
	}
	var rows [][]string
	for _, f := range found.Remarks {
		rows = append(rows, []string{string(f.Severity), f.Path, f.Text, f.Fix})
	}
	if len(rows) > 0 || c.Output != "table" {
		if err := c.print(o, found, []string{"severity", "where", "what", "fix"}, rows); err != nil {
			return err
		}
	}
	found.tell(o)
	if len(rules.Refused(found.Remarks)) > 0 {
		return &exitError{code: exitUsage}
	}
	return nil
}

// tell says on stderr what was replayed, and what each state had of it.
func (l linted) tell(o *output) {
	if len(l.Remarks) == 0 {
		fmt.Fprintln(o.err, "Nothing contradicts itself.")
	}
	if l.Same {
		fmt.Fprintln(o.err, "The rules in force do the same: applying these changes nothing.")
	}
	fmt.Fprintf(o.err, "Replayed over %s.\n", l.Over)
	if l.Replay.Windows == 0 {
		return
	}
	fmt.Fprintln(o.err, l.Replay)
	for _, s := range traffic.States() {
		fmt.Fprintf(o.err, "  %-17s %s windows, its rule in force in %s\n", s, strconv.Itoa(l.Replay.States[s]), strconv.Itoa(l.Replay.Held[s]))
	}
}

// there asks the server, which replays over what its proxy recorded.
func (c *rulesLintCmd) there(ctx context.Context, yaml []byte) (found linted, err error) {
	api, err := c.client()
	if err != nil {
		return found, err
	}
	return found, api.call(ctx, http.MethodPost, "/lint", map[string]string{"yaml": string(yaml)}, &found)
}

// here replays over a file, without a server.
func (c *rulesLintCmd) here(yaml []byte) (found linted, err error) {
	set, err := rules.Parse(c.File, yaml)
	if err != nil {
		return found, err
	}
	b, err := os.ReadFile(c.Snapshots)
	if err != nil {
		return found, usage("reading the snapshots: %w", err)
	}
	series, err := snapshotsIn(b)
	if err != nil {
		return found, usage("%s holds no snapshots: want the JSON of GET /alb/snapshots, or a list: %w", c.Snapshots, err)
	}
	found.Over = fmt.Sprintf("the %d snapshots in %s", len(series), c.Snapshots)
	found.Remarks, found.Replay = steering.Lint(set, series)
	return found, nil
}

// snapshotsIn reads a page of the proxy's ring, or a bare list.
func snapshotsIn(b []byte) (series []traffic.Snapshot, err error) {
	if err := json.Unmarshal(b, &series); err == nil {
		return series, nil
	}
	var page struct {
		Items *[]traffic.Snapshot `json:"items"`
	}
	if err := json.Unmarshal(b, &page); err != nil {
		return nil, err
	}
	if page.Items == nil {
		return nil, fmt.Errorf("no items")
	}
	return *page.Items, nil
}
