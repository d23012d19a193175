package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// inFolder runs the program in an empty folder with nothing of ours in the environment.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	t.Chdir(dir)
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_MODEL", "RETUNE_ENV_FILE", "RETUNE_CONFIG", "RETUNE_WEB", "PORT"} {
		t.Setenv(name, "") // restores it afterwards
		require.NoError(t, os.Unsetenv(name))
	}
}

func printed(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = run(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), err
}

// The system that this one follows read its key before it loaded the environment file, and never had one.
func TestTheKeyIsReadAfterTheEnvironmentFile(t *testing.T) {
	inFolder(t, map[string]string{".env": "OPENAI_API_KEY=sk-secret-of-a-test\nOPENAI_MODEL=from-the-file\n"})
	out, errs, err := printed(t, "config", "-o", "csv")
	require.NoError(t, err, errs)
	require.Contains(t, out, `openai-api-key,OPENAI_API_KEY,"(set, not shown)",OPENAI_API_KEY in .env`)
	require.Contains(t, out, "openai-model,OPENAI_MODEL,from-the-file,OPENAI_MODEL in .env")
	require.NotContains(t, out+errs, "sk-secret")
}

func TestFlagsOverEnvironmentOverFileOverDefaults(t *testing.T) {
	inFolder(t, map[string]string{"retune.yaml": "openai-model: of-the-file\nlisten: 127.0.0.1:1\n"})
	t.Setenv("OPENAI_MODEL", "of-the-environment")
	out, errs, err := printed(t, "config", "-o", "csv")
	require.NoError(t, err, errs)
	require.Contains(t, out, "openai-model,OPENAI_MODEL,of-the-environment,OPENAI_MODEL")
	require.Contains(t, out, "listen,RETUNE_LISTEN,127.0.0.1:1,retune.yaml")
	require.Contains(t, out, "127.0.0.1:9901,default")
}

func TestADefaultThatDependsOnTheMachineIsShown(t *testing.T) {
	inFolder(t, nil)
	t.Setenv("RETUNE_DATA_DIR", "")
	shown := func() string {
		out, errs, err := printed(t, "config", "-o", "csv")
		require.NoError(t, err, errs)
		return out
	}
	require.Contains(t, shown(), "data,RETUNE_DATA_DIR,"+defaultData()+",default")
	require.Contains(t, shown(), "web,RETUNE_WEB,127.0.0.1:8090,default")
	t.Setenv("PORT", "8123")
	require.Contains(t, shown(), "web,RETUNE_WEB,127.0.0.1:8123,PORT")
}

func TestTheConfigurationFileIsStrict(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"an unknown key": {"listne: 127.0.0.1:1\n", `"listne" is no flag`},
		"a secret":       {"openai-api-key: sk-secret\n", "is a secret"},
		"no mapping":     {"- a\n- b\n", "by the names of the flags"},
	} {
		t.Run(name, func(t *testing.T) {
			inFolder(t, map[string]string{"retune.yaml": c.text})
			_, errs, err := printed(t, "version")
			require.Error(t, err)
			require.Equal(t, exitUsage, exitCode(err, false))
			require.Contains(t, errs, c.want)
			require.NotContains(t, errs, "sk-secret")
		})
	}
}

func TestANamedFileThatIsMissingIsAnError(t *testing.T) {
	inFolder(t, nil)
	t.Setenv("RETUNE_ENV_FILE", "nowhere.env")
	_, errs, err := printed(t, "version")
	require.Equal(t, exitUsage, exitCode(err, false))
	require.Contains(t, errs, "nowhere.env")
}

func TestWithoutAnOrchestratorTheNextStepIsSaid(t *testing.T) {
	inFolder(t, nil)
	for _, args := range [][]string{{"cycle"}, {"rules", "list"}, {"schedule", "list"}} {
		_, errs, err := printed(t, append(args, "--server", "http://127.0.0.1:1")...)
		require.Equal(t, exitUnavailable, exitCode(err, false), "%v", args)
		require.Contains(t, errs, "make run", "%v", args)
	}
}

func TestUsageErrorsExit2(t *testing.T) {
	inFolder(t, nil)
	for _, args := range [][]string{{"cycle", "--profile", "huge"}, {"rules", "show", "seven"}, {"bench", "--algorithm", "MAGIC"}, {"nonsense"}, {"rules", "show", "1", "--server", "::"}, {"proxy", "--listen", "17085"}, {"serve", "--web", "web"}} {
		_, errs, err := printed(t, args...)
		require.Equal(t, exitUsage, exitCode(err, false), "%v: %s", args, errs)
		require.NotEmpty(t, errs)
	}
}

// The parser of environment files quotes what it can't read.
func TestABrokenEnvironmentFileDoesNotTellItsKeys(t *testing.T) {
	inFolder(t, map[string]string{".env": "OPENAI_API_KEY=\"sk-secret-of-a-test\n"})
	out, errs, err := printed(t, "version")
	require.Equal(t, exitUsage, exitCode(err, false))
	require.Contains(t, errs, "close every quote")
	require.NotContains(t, out+errs+err.Error(), "sk-secret")
}

// Compose files and environment files hand on variables that nobody filled in.
func TestAVariableThatIsSetToNothingIsNotSet(t *testing.T) {
	inFolder(t, nil)
	t.Setenv("RETUNE_LISTEN", "")
	t.Setenv("RETUNE_ADMIN", "")
	_, errs, err := printed(t, "proxy", "--backend", "nothing")
	require.Equal(t, exitUsage, exitCode(err, false), errs)
	require.Contains(t, errs, "nothing")
	require.NotContains(t, errs, "address")
}
