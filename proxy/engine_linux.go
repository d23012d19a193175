package proxy

// newSystemEngine is the best engine for this system.
func newSystemEngine(l *lane) engine { return nil }
