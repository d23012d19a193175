package main

import "syscall"

// dieWithUs has the kernel stop a child when our process is killed.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGTERM }
