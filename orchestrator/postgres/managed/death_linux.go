package managed

import "syscall"

// dieWithUs has the kernel ask the child for a fast shutdown when we end, however we end.
func dieWithUs(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }
