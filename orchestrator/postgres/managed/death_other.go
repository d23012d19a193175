//go:build unix && !linux

package managed

import "syscall"

// dieWithUs can't be had here: an orphan is stopped by the next start.
func dieWithUs(*syscall.SysProcAttr) {}
