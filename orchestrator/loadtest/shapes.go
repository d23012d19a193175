package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"retune/k6"
)

// maxShape bounds a shape file, in bytes.
const maxShape = 64 << 10

// Bundled are the names of the scenarios that come with Retune, in the order in which they are shown.
var Bundled = []string{"steady", "burst", "gradual", "failure", "sawtooth", "reference"}

// Shapes are the bundled scenarios' shapes, as their files have them: for the Standard profile.
func Shapes() []Shape {
	all := make([]Shape, len(Bundled))
	for i, name := range Bundled {
		s, err := Load(name)
		if err != nil {
			panic(err) // embedded; a test loads each
		}
		all[i] = s
	}
	return all
}

// Load is the bundled shape of that name.
func Load(name string) (Shape, error) {
	if !slices.Contains(Bundled, name) {
		return Shape{}, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(Bundled, ", "))
	}
	return readShape(k6.Files, name+".json")
}

// LoadDir is the user's own scenarios in a directory: NAME.json is a shape for both drivers, NAME.js a k6 script for
// k6 alone; a script beside its shape has the shape's plan. All faults of all files come back in one error.
func LoadDir(dir string) ([]Scenario, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading own scenarios: %w", err)
	}
	var all []Scenario
	var faults []error
	byName := map[string]int{}
	for _, f := range files { // NAME.js sorts before NAME.json
		name, ext := strings.TrimSuffix(f.Name(), filepath.Ext(f.Name())), filepath.Ext(f.Name())
		if f.IsDir() || (ext != ".js" && ext != ".json") {
			continue
		}
		i, seen := byName[name]
		if !seen {
			i, byName[name] = len(all), len(all)
			all = append(all, Scenario{Shape: Shape{Name: name}})
		}
		if ext == ".js" {
			all[i].Script = filepath.Join(dir, f.Name())
			continue
		}
		if all[i].Shape, err = readShape(os.DirFS(dir), f.Name()); err != nil {
			faults = append(faults, err)
		} else if slices.Contains(Bundled, name) {
			faults = append(faults, fmt.Errorf("%s: a bundled scenario has this name; choose another", f.Name()))
		}
	}
	return all, errors.Join(faults...)
}

// readShape reads the shape file of that name, whose shape must have the same name.
func readShape(from fs.FS, file string) (Shape, error) {
	f, err := from.Open(file)
	if err != nil {
		return Shape{}, fmt.Errorf("reading a shape: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxShape+1))
	if err != nil {
		return Shape{}, fmt.Errorf("reading shape %s: %w", file, err)
	}
	s, err := ParseShape(b)
	if want := strings.TrimSuffix(path.Base(file), ".json"); err == nil && s.Name != want {
		err = fmt.Errorf("name: %q, but the file's name says %q", s.Name, want)
	}
	if err != nil {
		return Shape{}, fmt.Errorf("%s: %w", file, err)
	}
	return s, nil
}

// ParseShape reads a shape file: strictly, naming every fault with its place.
func ParseShape(b []byte) (Shape, error) {
	if len(b) > maxShape {
		return Shape{}, fmt.Errorf("larger than %d bytes", maxShape)
	}
	var s Shape
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&s)
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Shape{}, placed(b, err)
	}
	if _, after := d.Token(); err == nil && !errors.Is(after, io.EOF) {
		err = errors.New("there is more after the shape's closing brace")
	}
	return s, errors.Join(placed(b, err), s.Validate()) // what is readable is checked too
}

var unknownField = regexp.MustCompile(`^json: unknown field (".*")$`)

// placed puts the line in front of what encoding/json found wrong in b.
func placed(b []byte, err error) error {
	if err == nil {
		return nil
	}
	at := int64(-1)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) {
		at = syntax.Offset
	} else if errors.As(err, &kind) {
		at = kind.Offset
	} else if m := unknownField.FindStringSubmatch(err.Error()); m != nil {
		at = int64(bytes.Index(b, []byte(m[1])))
	}
	if at < 0 || at > int64(len(b)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+bytes.Count(b[:at], []byte("\n")), err)
}
