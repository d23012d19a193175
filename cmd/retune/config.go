package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml"
	"github.com/joho/godotenv"
)

// Configuration is flags over environment over a file over defaults. This file is the only one that asks the
// environment; what a flag's tag names as env is read by kong.

// loadEnvFile reads RETUNE_ENV_FILE, or .env where it is, into the environment before anything asks for a
// key. What is set already stays; what the file set is returned, with the file's name.
func loadEnvFile() (set map[string]string, err error) {
	name, named := os.LookupEnv("RETUNE_ENV_FILE")
	if !named {
		name = ".env"
	}
	values, err := godotenv.Read(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil, nil
	}
	var read *fs.PathError
	if errors.As(err, &read) {
		return nil, fmt.Errorf("reading the environment file: %w", err)
	}
	if err != nil { // the parser's error holds what stands in the file, which may be a key
		return nil, fmt.Errorf("the environment file %s can't be understood: write NAME=value lines, and close every quote", name)
	}
	set = map[string]string{}
	for key, value := range values {
		if _, is := os.LookupEnv(key); is {
			continue
		}
		if err := os.Setenv(key, value); err != nil {
			return nil, fmt.Errorf("the environment file %s: %q: %w", name, key, err)
		}
		set[key] = name
	}
	return set, nil
}

// noColor is the customary wish for plain text.
func noColor() bool { return os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" }

// webPort is the customary PORT, for --web's default.
func webPort() string { return os.Getenv("PORT") }

// childEnv is our environment for a process that needs no secret of the orchestrator's. What an environment file
// had is in it already.
func childEnv() []string {
	all := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"OPENAI_API_KEY", "DATABASE_URL", "RETUNE_AUTH_TOKEN", "RETUNE_ENV_FILE"}, name)
	})
	return append(all, "RETUNE_ENV_FILE="+os.DevNull)
}

// defaultData is where everything is kept when --data is not given: /var/lib/retune for root, whose home other
// accounts can't enter, else the user's own data folder.
func defaultData() string {
	if os.Geteuid() == 0 {
		return "/var/lib/retune"
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "retune")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), fmt.Sprintf("retune-%d", os.Geteuid()))
	}
	return filepath.Join(home, ".local", "share", "retune")
}

// configFile answers kong from a YAML file of flag names and values. The environment comes before it.
type configFile struct {
	name    string
	values  map[string]any
	fromEnv map[string]string // variables that an environment file set, with its name
}

// readConfigFile reads RETUNE_CONFIG, or retune.yaml where it is.
func readConfigFile() (*configFile, error) {
	name, named := os.LookupEnv("RETUNE_CONFIG")
	if !named {
		name = "retune.yaml"
	}
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return &configFile{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the configuration file: %w", err)
	}
	c := &configFile{name: name}
	if err := yaml.UnmarshalWithOptions(b, &c.values, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("the configuration file %s: want lines such as `web: 127.0.0.1:8090`, by the names of the flags: %w", name, err)
	}
	return c, nil
}

// Validate refuses a key that is no flag of any command.
func (c *configFile) Validate(app *kong.Application) error {
	known := map[string]bool{}
	for _, f := range everyFlag(app.Node) {
		known[f.Name] = true
	}
	for key := range c.values {
		if !known[key] {
			return fmt.Errorf("%s: %q is no flag of any command; `retune config` lists them", c.name, key)
		}
		if f := c.secret(app.Node, key); f {
			return fmt.Errorf("%s: %q is a secret: set it in the environment, not in this file", c.name, key)
		}
	}
	return nil
}

func (c *configFile) secret(n *kong.Node, key string) bool {
	return slices.ContainsFunc(everyFlag(n), func(f *kong.Flag) bool { return f.Name == key && f.Tag.Has("secret") })
}

// Resolve gives a flag its value from the file, unless the environment has one.
func (c *configFile) Resolve(_ *kong.Context, _ *kong.Path, f *kong.Flag) (any, error) {
	if setInEnv(f) != "" {
		return nil, nil
	}
	return c.values[f.Name], nil
}

// setInEnv is the variable that a flag has its value from; empty: none.
func setInEnv(f *kong.Flag) string {
	for _, e := range f.Envs {
		if os.Getenv(e) != "" {
			return e
		}
	}
	return ""
}

// everyFlag is the flags of a command and all below it.
func everyFlag(n *kong.Node) (all []*kong.Flag) {
	all = append(all, n.Flags...)
	for _, c := range n.Children {
		all = append(all, everyFlag(c)...)
	}
	return all
}

type configCmd struct {
	tableFlags
}

// configRow is one setting, what it is and where that comes from.
type configRow struct {
	Setting string   `json:"setting"`
	Env     []string `json:"env,omitempty"`
	Value   string   `json:"value"`
	From    string   `json:"from"`
	Help    string   `json:"help"`
}

// Run prints every setting that the environment or the file can set, its value and where that comes from.
func (c *configCmd) Run(o *output, k *kong.Kong, file *configFile) error {
	byName := map[string]configRow{}
	for _, f := range everyFlag(k.Model.Node) {
		if len(f.Envs) > 0 {
			byName[f.Name] = file.row(f)
		}
	}
	var all []configRow
	var rows [][]string
	for _, r := range byName {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b configRow) int { return strings.Compare(a.Setting, b.Setting) })
	for _, r := range all {
		rows = append(rows, []string{r.Setting, strings.Join(r.Env, ", "), r.Value, r.From})
	}
	return c.print(o, all, []string{"setting", "environment", "value", "from"}, rows)
}

func (c *configFile) row(f *kong.Flag) configRow {
	r := configRow{Setting: f.Name, Env: f.Envs, Value: f.Default, From: "default", Help: f.Help}
	switch f.Name { // whose defaults depend on the machine
	case "data":
		r.Value = defaultData()
	case "web":
		r.Value = (&orchestratorFlags{}).webAddr()
		if webPort() != "" {
			r.From = "PORT"
		}
	}
	if v, ok := c.values[f.Name]; ok {
		r.Value, r.From = fmt.Sprint(v), c.name
	}
	if e := setInEnv(f); e != "" {
		r.Value, r.From = os.Getenv(e), e
		if name := c.fromEnv[e]; name != "" {
			r.From += " in " + name
		}
	}
	if f.Tag.Has("secret") && r.Value != "" {
		r.Value = "(set, not shown)"
	}
	return r
}

// unsetEmpty takes variables that are set to nothing for unset: so they stand in environment files, for kong they are values.
func unsetEmpty(k *kong.Kong) {
	for _, f := range everyFlag(k.Model.Node) {
		for _, e := range f.Envs {
			if os.Getenv(e) == "" {
				_ = os.Unsetenv(e) // it can't fail
			}
		}
	}
}
