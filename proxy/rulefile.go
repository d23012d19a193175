package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"retune/proxy/rules"
)

// ruleFile is the proxy's memory of its rules: a file on disk, never one inside the binary.
type ruleFile struct {
	path  string
	bytes []byte // as they were read or written last
	rules rules.RuleSet
}

// openRules loads the rule file. A missing one is written with the default rules; an invalid one is an error
// with every fault.
func openRules(path string, log *slog.Logger) (*ruleFile, error) {
	b, rs, err := readRules(path)
	if errors.Is(err, fs.ErrNotExist) {
		rs = rules.Default()
		b = rules.Render(rs)
		if err = writeRules(path, b); err == nil {
			log.Info("there was no rule file: the default rules were written", "path", path)
		}
	}
	if err != nil {
		return nil, err
	}
	return &ruleFile{path, b, rs}, nil
}

// readRules reads and parses a rule file.
func readRules(path string) ([]byte, rules.RuleSet, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe would be waited for
		return nil, rules.RuleSet{}, fmt.Errorf("reading the rules: %s is no regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, rules.RuleSet{}, fmt.Errorf("reading the rules: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, rules.MaxSize+1)) // Parse refuses what is larger
	if err != nil {
		return nil, rules.RuleSet{}, fmt.Errorf("reading the rules: %w", err)
	}
	rs, err := rules.Parse(path, b)
	return b, rs, err
}

// replaceFile writes rules over the rule file. One that somebody wrote by hand, with comments or a layout of its own, is
// kept beside it, at its name with .orig.
func (c *control) replaceFile(b []byte) error {
	old, rs, err := readRules(c.path)
	byHand := err != nil || !bytes.Equal(old, rules.Render(rs))
	if len(old) > rules.MaxSize { // readRules stops there
		if old, err = os.ReadFile(c.path); err != nil {
			return err
		}
	}
	if len(old) > 0 && byHand && !bytes.Equal(old, b) {
		if err := writeRules(c.path+".orig", old); err != nil {
			return err
		}
		c.log.Info("the rule file was written by hand; it is kept beside the new one", "kept", c.path+".orig")
	}
	return writeRules(c.path, b)
}

// writeRules replaces the file as a whole or not at all, and returns when its bytes are safe on disk.
func writeRules(path string, b []byte) error {
	if err := replace(path, b); err != nil {
		return fmt.Errorf("writing the rules: %w", err)
	}
	return nil
}

func replace(path string, b []byte) (err error) {
	if real, e := filepath.EvalSymlinks(path); e == nil {
		path = real // a link keeps pointing where it does
	}
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(b); err != nil {
		return err
	}
	if err = f.Chmod(modeOf(path)); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// modeOf is the mode to keep: the old file's, else one that everybody may read.
func modeOf(path string) fs.FileMode {
	if info, err := os.Stat(path); err == nil {
		return info.Mode().Perm()
	}
	return 0o644
}

// syncDir makes a rename last through a crash of the machine, where the file system can do that. That it can't is no reason to
// say that nothing was written: the file has been replaced.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
