package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"retune/proxy/rules"
)

// validate runs `retune rules validate` on a file of these bytes.
func validate(t *testing.T, yaml []byte) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("f.yml", yaml, 0o600))
	var out, errs bytes.Buffer
	err := run(context.Background(), []string{"rules", "validate", "f.yml"}, &out, &errs)
	return exitCode(err, false), out.String(), errs.String()
}

func TestRulesValidate(t *testing.T) {
	code, stdout, stderr := validate(t, rules.Render(rules.Default()))
	require.Equal(t, []any{exitOK, "f.yml: valid, version 1\n", ""}, []any{code, stdout, stderr})

	code, stdout, _ = validate(t, rules.Render(rules.Safe()))
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "f.yml: warning: rules: every state has the same algorithm, ROUND_ROBIN")

	broken := bytes.Replace(rules.Render(rules.Default()), []byte("cooldown: 10s"), []byte("cooldown: soon"), 1)
	broken = bytes.Replace(broken, []byte("version: 1"), []byte("version: one"), 1)
	code, stdout, stderr = validate(t, broken)
	require.Equal(t, exitUsage, code)
	require.Empty(t, stdout)
	require.Equal(t, "f.yml:1:10: version is the text \"one\"; want a whole number from 1 to 1000000000\n"+
		"f.yml:15:13: cooldown is the text \"soon\"; want a duration from 0s to 10m, with its unit, e.g. 10s or 500ms\n", stderr)
}

func TestRulesValidateWithoutAFile(t *testing.T) {
	var out, errs bytes.Buffer
	err := run(context.Background(), []string{"rules", "validate", filepath.Join(t.TempDir(), "none.yml")}, &out, &errs)
	require.Equal(t, exitUsage, exitCode(err, false))
	require.Contains(t, errs.String(), "none.yml")
}
