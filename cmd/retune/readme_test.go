package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	return string(text)
}

// Every command line of ours that the manual shows is one that the binary takes.
func TestTheReadmesCommandsAreTheBinarysOwn(t *testing.T) {
	text := strings.ReplaceAll(readme(t), "\\\n", "")
	commands := regexp.MustCompile(`(?m)^bin/retune (.+)$`).FindAllStringSubmatch(text, -1)
	require.GreaterOrEqual(t, len(commands), 4)
	for _, c := range commands {
		parse(t, strings.Fields(c[1]))
	}
}

// Every target that the manual names is in the Makefile, and every variable in its table is one that a flag takes.
func TestTheReadmeNamesWhatThereIs(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(readme(t), -1) {
		require.Contains(t, string(makefile), "\n"+m[1]+":", "make %s", m[1])
	}
	known := map[string]bool{"PORT": true} // config.go's
	parser, err := newParser(&cli{}, io.Discard, io.Discard)
	require.NoError(t, err)
	require.NoError(t, kong.Visit(parser.Model.Node, func(node kong.Visitable, next kong.Next) error {
		if f, ok := node.(*kong.Flag); ok {
			for _, e := range f.Envs {
				known[e] = true
			}
		}
		return next(nil)
	}))
	rows := regexp.MustCompile("(?m)^\\| (`[A-Z_0-9`, ]+`) \\|").FindAllStringSubmatch(readme(t), -1)
	require.Greater(t, len(rows), 10)
	for _, row := range rows {
		for _, name := range strings.Split(row[1], ", ") {
			require.True(t, known[strings.Trim(name, "`")], "no flag takes %s", name)
		}
	}
}
