//go:build !linux

package main

import "syscall"

// dieWithUs has no counterpart here: a child of a killed parent goes on until it is stopped by hand.
func dieWithUs(*syscall.SysProcAttr) {}
