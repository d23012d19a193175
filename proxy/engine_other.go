//go:build !linux

package proxy

// newSystemEngine is the best engine for this system.
func newSystemEngine(l *lane) engine { return newGoroutines(l) }

// held can't be told here.
func held(uintptr) int { return 0 }
