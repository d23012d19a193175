package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"syscall"
)

// builtin is the driver that comes with Retune: its own program's load command, open-loop by vegeta.
type builtin struct{ exe string }

// newBuiltin makes the built-in driver's runner, which needs nothing but our own program.
func newBuiltin(c Config, why string) (*Runner, error) {
	exe := c.Exe
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("finding Retune's own program: %w", err)
		}
	}
	return &Runner{Driver: Builtin, Version: builtinVersion(), Why: why, program: builtin{exe}, scratch: c.Scratch, patience: usualPatience}, nil
}

// builtinVersion names the version of vegeta that is compiled in.
func builtinVersion() string {
	const module = "github.com/tsenart/vegeta/v12"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == module {
				return "vegeta " + m.Version
			}
		}
	}
	return "vegeta"
}

// prepare hands the scenario to the child as JSON on its standard input. The child gets SIGTERM, not SIGKILL, when we
// die: it revives the backends before it goes.
func (b builtin) prepare(_ context.Context, s *Scenario, dir string) (command, error) {
	if !s.Runs(Builtin) {
		return command{}, errors.New("a k6 script needs the k6 driver; the built-in one runs shapes alone")
	}
	in, err := json.Marshal(s)
	if err != nil {
		return command{}, fmt.Errorf("writing the scenario for the load command: %w", err)
	}
	return command{path: b.exe, args: []string{"load"}, env: []string{"GOGC=400"}, dir: dir, stdin: in, onDeath: syscall.SIGTERM}, nil
}
