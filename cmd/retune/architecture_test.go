package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository, seen from this package's folder, where its tests run.
const root = "../.."

// floors is the house, bottom up. A package imports lower floors only: what it may know can be read off here.
var floors = map[string]int{
	"k6": 0, "prompts": 0, "migrations": 0,
	"proxy/balance": 0, "proxy/traffic": 0, "proxy/wire": 0, "proxy/demo": 0,
	"orchestrator/postgres/managed": 0,
	"orchestrator/loadtest":         1, "proxy/rules": 1,
	"orchestrator/verdict": 2, "ruleversions": 2, "proxy/steering": 2,
	"orchestrator/switchlog": 3, "orchestrator/target": 3, "proxy": 3, "proxy/sim": 3,
	"orchestrator/advisor":  4,
	"orchestrator":          5,
	"orchestrator/postgres": 6, "web": 6,
	"cmd/retune": 7,
}

// walls are the imports that no package of a household has, however indirectly. A name that ends in /... stands
// for everything below it too.
var walls = []struct{ from, never, why string }{
	{"retune/proxy/...", "retune/orchestrator/...", "no model and no database on the request path: the proxy serves by its rule file alone"},
	{"retune/proxy/...", "retune/ruleversions/...", "the proxy knows the rules in force, not their history"},
	{"retune/proxy/...", "retune/web/...", "the proxy serves traffic, the pages look on"},
	{"retune/proxy/...", "github.com/jackc/pgx/...", "the proxy needs no database"},
	{"retune/proxy/...", "github.com/sashabaranov/go-openai/...", "no model on the request path"},
	{"retune/orchestrator/...", "retune/proxy", "they talk HTTP even in one process, so that every deployment is tested by each"},
	{"retune/orchestrator/...", "retune/proxy/wire/...", "the orchestrator imports the proxy's dictionary, never its engine"},
	{"retune/orchestrator/...", "retune/proxy/demo/...", "scenarios reach the demo backends by their control endpoint, as they would anybody's"},
	{"retune/orchestrator/...", "retune/web/...", "the orchestrator reports by saving to the ledger, never by calling pages"},
	{"retune/orchestrator", "retune/orchestrator/postgres/...", "the cycle knows a ledger, not what keeps it"},
	{"retune/web/...", "retune/orchestrator/postgres/...", "pages read by their own interfaces"},
}

// pure are the packages that decide. They touch nothing, so that a decision can be replayed.
var pure = []string{"retune/orchestrator/verdict", "retune/proxy/steering", "retune/proxy/rules", "retune/proxy/traffic"}

// homes says which packages alone may import a module, so that replacing it is one package's work.
var homes = map[string][]string{
	"github.com/labstack/echo/v4":             {"retune/web"}, // near its end of support
	"github.com/danielgtaylor/huma/v2":        {"retune/web"},
	"github.com/a-h/templ":                    {"retune/web"},
	"github.com/sashabaranov/go-openai":       {"retune/orchestrator/advisor"},
	"github.com/jackc/pgx/v5":                 {"retune/orchestrator/postgres"},
	"github.com/pressly/goose/v3":             {"retune/orchestrator/postgres"},
	"github.com/tsenart/vegeta/v12":           {"retune/orchestrator/loadtest"},
	"github.com/netresearch/go-cron":          {"retune/orchestrator"},
	"github.com/alecthomas/kong":              {"retune/cmd/retune"},
	"github.com/prometheus/client_golang":     {"retune/proxy", "retune/web", "retune/cmd/retune"},
	"github.com/goccy/go-yaml":                {"retune/proxy/rules"},
	"github.com/cespare/xxhash/v2":            {"retune/proxy"},
	"github.com/HdrHistogram/hdrhistogram-go": {"retune/orchestrator"},
}

// forbidden modules never stand in go.mod.
var forbidden = map[string]string{
	"go.k6.io/":                       "k6 is AGPL-3.0: it runs as a separate program and is never linked",
	"github.com/grafana/":             "its modules around k6 are AGPL-3.0",
	"github.com/alecthomas/kong-yaml": "it has no licence",
}

// goPackage is what `go list` says of one package.
type goPackage struct {
	ImportPath, Dir, Doc   string
	GoFiles, Imports, Deps []string
}

// packages lists ours, once for all tests.
var packages = sync.OnceValues(func() ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Doc,GoFiles,Imports,Deps", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var list []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
})

func eachPackage(t *testing.T, check func(p goPackage)) {
	t.Helper()
	list, err := packages()
	require.NoError(t, err)
	require.Greater(t, len(list), 5, "go list saw hardly any package")
	for _, p := range list {
		if p.ImportPath != "retune/internal/deps" { // goes when the parts are joined
			check(p)
		}
	}
}

// within reports whether a package is what pattern names: itself, or below it where the pattern ends in /...
func within(pkg, pattern string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return pkg == base || strings.HasPrefix(pkg, base+"/")
	}
	return pkg == pattern
}

func TestAPackageImportsLowerFloorsOnly(t *testing.T) {
	eachPackage(t, func(p goPackage) {
		name := strings.TrimPrefix(p.ImportPath, "retune/")
		floor, ok := floors[name]
		if !ok {
			t.Errorf("%s stands on no floor: give it one in floors", name)
			return
		}
		for _, imported := range p.Imports {
			below, ours := strings.CutPrefix(imported, "retune/")
			if ours && floors[below] >= floor {
				t.Errorf("%s (floor %d) imports %s (floor %d): a package imports lower floors only", name, floor, below, floors[below])
			}
		}
	})
}

func TestWallsBetweenTheHouseholdsStand(t *testing.T) {
	eachPackage(t, func(p goPackage) {
		for _, w := range walls {
			if !within(p.ImportPath, w.from) {
				continue
			}
			for _, d := range p.Deps {
				if within(d, w.never) {
					t.Errorf("%s reaches %s: %s", p.ImportPath, d, w.why)
				}
			}
		}
	})
}

func TestModulesStayAtHome(t *testing.T) {
	eachPackage(t, func(p goPackage) {
		for _, imported := range p.Imports {
			for module, home := range homes {
				if !within(imported, module+"/...") {
					continue
				}
				if !slices.ContainsFunc(home, func(h string) bool { return within(p.ImportPath, h+"/...") }) {
					t.Errorf("%s imports %s, which stays in %s", p.ImportPath, imported, strings.Join(home, ", "))
				}
			}
		}
	})
}

func TestWhatDecidesTouchesNothing(t *testing.T) {
	touches := []string{"net", "net/http", "database/sql", "os", "os/exec"}
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	eachPackage(t, func(p goPackage) {
		if !slices.Contains(pure, p.ImportPath) {
			return
		}
		for _, imported := range p.Imports {
			if slices.Contains(touches, imported) {
				t.Errorf("%s imports %s: what decides has its input handed in", p.ImportPath, imported)
			}
		}
		eachSource(t, p, func(file string, _ *token.FileSet, f *ast.File) {
			for _, call := range calls(f, "time", clock) {
				t.Errorf("%s reads the clock by time.%s: the instant is an argument", file, call)
			}
		})
	})
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	eachPackage(t, func(p goPackage) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	})
}

// The budget keeps a reader's pace. Generated files are nobody's reading.
func TestFunctionsAndFilesKeepTheBudget(t *testing.T) {
	const functionLines, fileLines = 60, 400
	eachPackage(t, func(p goPackage) {
		eachSource(t, p, func(file string, set *token.FileSet, f *ast.File) {
			if n := set.File(f.Pos()).LineCount(); n > fileLines {
				t.Errorf("%s has %d lines, budget %d: would two files read better?", file, n, fileLines)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; n > functionLines {
					t.Errorf("%s: %s has %d lines, budget %d", file, fn.Name.Name, n, functionLines)
				}
			}
		})
	})
}

func TestNothingHappensBehindOnesBack(t *testing.T) {
	eachPackage(t, func(p goPackage) {
		eachSource(t, p, func(file string, _ *token.FileSet, f *ast.File) {
			for _, d := range f.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
					t.Errorf("%s has an init: tables are literals, and main wires", file)
				}
			}
			if strings.HasSuffix(file, "cmd/retune/config.go") {
				return
			}
			for _, call := range calls(f, "os", []string{"Getenv", "LookupEnv"}) {
				t.Errorf("%s calls os.%s: the environment is read in cmd/retune/config.go alone, and handed in", file, call)
			}
		})
	})
}

func TestForbiddenModulesAreAbsent(t *testing.T) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		for module, why := range forbidden {
			require.NotContains(t, string(text), module, "%s: %s", name, why)
		}
	}
}

// Registries are reached through their ordinary clients, which know their hosts; a folder of one machine means
// nothing on the next. The needles are cut in two so that this file is no find itself.
func TestNoHostOrMachineIsWrittenDown(t *testing.T) {
	needles := []string{
		"proxy.golang" + ".org", "sum.golang" + ".org", "registry.npmjs" + ".org", "deb.debian" + ".org",
		"/work" + "/main", "/work" + "/wt", "/work" + "/shared", "/tmp/bash" + "_jobs",
		"TO" + "DO", "FIX" + "ME",
	}
	eachFile(t, func(name string, text string) {
		if strings.Contains(name, "static/vendor/") {
			return
		}
		for _, n := range needles {
			if strings.Contains(text, n) {
				t.Errorf("%s contains %q", name, n)
			}
		}
	})
}

// eachSource parses a package's files, but for tests and generated ones. file is named from the repository's root.
func eachSource(t *testing.T, p goPackage, see func(file string, set *token.FileSet, f *ast.File)) {
	t.Helper()
	for _, name := range p.GoFiles {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		if !ast.IsGenerated(f) {
			see(path.Join(strings.TrimPrefix(p.ImportPath, "retune/"), name), set, f)
		}
	}
}

// calls returns which of a package's functions a file uses.
func calls(f *ast.File, pkg string, functions []string) (used []string) {
	ast.Inspect(f, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Name == pkg && slices.Contains(functions, s.Sel.Name) {
			used = append(used, s.Sel.Name)
		}
		return true
	})
	return used
}

// eachFile reads what a clone holds: everything but what .gitignore names. Pictures are skipped.
func eachFile(t *testing.T, see func(name, text string)) {
	t.Helper()
	ignored := []string{".git", "bin", "data", ".cache", "node_modules"}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(ignored, d.Name()):
			return filepath.SkipDir
		case !d.Type().IsRegular(), d.Name() == ".env", d.Name() == ".git", strings.HasSuffix(name, ".png"):
			return nil
		}
		text, err := os.ReadFile(name)
		see(strings.TrimPrefix(name, root+"/"), string(text))
		return err
	})
	require.NoError(t, err)
}
