//go:build unix

package proxy

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A rule file that is a pipe would be waited for, with everything that changes rules waiting behind it.
func TestAPipeIsNoRuleFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "rules.yml")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	_, err := New(Config{Rules: pipe, Admin: "127.0.0.1:0", TrafficListener: (net.Listener)(nil)})
	require.ErrorContains(t, err, "no regular file")
}
