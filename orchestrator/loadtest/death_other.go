//go:build !linux

package loadtest

import "syscall"

// childAttr puts a child into a process group of its own. Without Linux's parent-death signal, a child whose parent is
// gone ends at its next write to the broken pipe.
func childAttr(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
