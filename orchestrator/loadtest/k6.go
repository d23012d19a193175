package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"retune/k6"
)

// k6Program is the user's own k6. It is run as a separate program, and never fetched, imported or built.
type k6Program struct{ path string }

// newK6 looks for k6 where the user named it, then in the data directory, then on PATH, and asks its version.
func newK6(ctx context.Context, c Config) (*Runner, error) {
	path, from, err := findK6(c)
	if err != nil {
		return nil, err
	}
	p := k6Program{path}
	version, err := p.version(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s (%s): %w", path, from, err)
	}
	return &Runner{Driver: K6, Version: version, Why: fmt.Sprintf("k6 %s, %s (%s)", version, path, from),
		program: p, scratch: c.Scratch, patience: usualPatience}, nil
}

// findK6 is where k6 lies and who says so.
func findK6(c Config) (path, from string, err error) {
	if c.K6 != "" {
		path, err := exec.LookPath(c.K6)
		if err != nil {
			return "", "", fmt.Errorf("RETUNE_K6 names %q: %w", c.K6, err)
		}
		path, err = filepath.Abs(path)
		return path, "RETUNE_K6", err
	}
	if c.DataDir != "" {
		own, err := filepath.Abs(filepath.Join(c.DataDir, "bin", "k6"))
		if err != nil {
			return "", "", err
		}
		if _, err := exec.LookPath(own); err == nil {
			return own, "the data directory", nil
		}
	}
	path, err = exec.LookPath("k6")
	if err != nil {
		return "", "", errors.New("RETUNE_K6 names none, the data directory's bin has none, and there is none on PATH")
	}
	return path, "PATH", nil
}

var k6Version = regexp.MustCompile(`^k6(?:\.exe)? v?((\d+)\.\d+\.\d+\S*)`)

// version asks k6 for its version, and refuses one before 1.0.
func (p k6Program) version(ctx context.Context) (string, error) {
	out, err := p.ask(ctx, "", "version")
	if err != nil {
		return "", fmt.Errorf("asking its version: %w", err)
	}
	m := k6Version.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("it does not answer like k6: %.80q", out)
	}
	if major, err := strconv.Atoi(string(m[2])); err != nil || major < 1 {
		return "", fmt.Errorf("it is k6 %s; 1.0 is the oldest that works", m[1])
	}
	return "v" + string(m[1]), nil
}

// askTime bounds k6's short commands; they take 0.05 s.
const askTime = 20 * time.Second

// ask runs one of k6's short commands and gives its standard output; the error carries what it said.
func (p k6Program) ask(ctx context.Context, dir string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, k6Env(dir), time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %.500s", err, bytes.TrimSpace(said.Bytes()))
	}
	return out, nil
}

// k6Env is k6's whole environment. K6_VUS and the like would silently replace the scenarios, a proxy variable would
// send the load elsewhere, and a missing extension would be fetched as a built program.
func k6Env(dir string) []string {
	return []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "TMPDIR=" + dir, "NO_COLOR=1", "NO_PROXY=*",
		"K6_NO_USAGE_REPORT=true", "K6_AUTO_EXTENSION_RESOLUTION=false",
	}
}

// prepare lays script and shape into dir and has k6 inspect them.
func (p k6Program) prepare(ctx context.Context, s *Scenario, dir string) (command, error) {
	script, err := layOut(*s, dir)
	if err != nil {
		return command{}, err
	}
	vars, err := scriptVars(*s, dir)
	if err != nil {
		return command{}, err
	}
	inspect := append(append([]string{"inspect", "--execution-requirements"}, vars...), script)
	out, err := p.ask(ctx, dir, inspect...)
	if err != nil {
		return command{}, fmt.Errorf("k6 refuses the script of %s: %w", s.Shape.Name, err)
	}
	if err := adoptPlan(s, out); err != nil {
		return command{}, err
	}
	config := filepath.Join(dir, "k6-config.json")
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		return command{}, fmt.Errorf("writing k6's empty configuration: %w", err)
	}
	args := []string{"run", "--quiet", "--no-color", "--address=", "--no-usage-report", "--config", config,
		"--summary-mode=disabled", "--no-thresholds", "--log-format=json",
		"--system-tags=status,error_code,expected_response,scenario,name", "--out", "json=-"}
	return command{path: p.path, args: append(slices.Concat(args, vars), script), env: k6Env(dir), dir: dir, onDeath: syscall.SIGKILL}, nil
}

// layOut writes the bundled scripts and the shape as it is run into dir, and gives the script to run: the shape's own,
// any bundled one for a shape of the user's, or the user's script where it lies.
func layOut(s Scenario, dir string) (string, error) {
	shape, err := json.Marshal(s.Shape)
	if err == nil {
		err = os.CopyFS(dir, k6.Files)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, shapeFile), shape, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("writing the run's scripts and shape: %w", err)
	}
	if s.Script != "" {
		path, err := filepath.Abs(s.Script)
		if err != nil {
			return "", fmt.Errorf("finding script %s: %w", s.Script, err)
		}
		return path, checkScript(path)
	}
	name := s.Shape.Name
	if !slices.Contains(Bundled, name) {
		name = Bundled[0]
	}
	return filepath.Join(dir, name+".js"), nil
}

// shapeFile is the shape as it is run, in the run's directory; beginning with an underscore no shape's name is like it.
const shapeFile = "_shape.json"

// scriptVars is what the scripts read from __ENV.
func scriptVars(s Scenario, dir string) ([]string, error) {
	controls, err := json.Marshal(s.Controls)
	if err != nil {
		return nil, fmt.Errorf("writing the control endpoints for k6: %w", err)
	}
	return []string{
		"-e", "TARGET=" + s.Target, "-e", "CONTROLS=" + string(controls), "-e", "WARM=" + s.Warm.String(),
		"-e", "TIMEOUT=" + s.Timeout.String(), "-e", "SEED=" + strconv.FormatUint(uint64(foldSeed(s.Seed)), 10), "-e", "SHAPE=" + filepath.Join(dir, shapeFile),
	}, nil
}
