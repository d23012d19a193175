package loadtest

import "syscall"

// childAttr puts a child into a process group of its own, so that a Ctrl-C in the terminal does not reach it beside
// our own signal, and has the kernel send it onDeath when its parent dies.
func childAttr(onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onDeath}
}
