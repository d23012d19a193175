// Package managed runs a Postgres server of our own as a child process, for those who bring none.
//
//	DataDir/owner.lock    one retune per data directory (flock)
//	DataDir/pg            the cluster
//	DataDir/run           the Unix socket, mode 0700; in /tmp where the path would be too long for a socket
//	DataDir/postgres.log  what the server says
//
// The server listens on that socket alone: no TCP port, no password, and exactly the protection of its files. It is
// a direct child, not a daemon, so that we learn at once when it ends and it ends with us: on Linux the kernel
// interrupts it when we are killed, elsewhere the next start finds the orphan and stops it.
//
// Crashes leave files behind that make Postgres refuse to start. With owner.lock held, a live postmaster in our
// cluster can only be an orphan, and anything else in its lock files is stale.
package managed

// Config says where the server lives.
type Config struct {
	DataDir string // made when missing
	// BinDir is the folder of postgres and initdb (RETUNE_PG_BIN); empty: PATH, then the folders in which
	// distributions and `make tools` put them.
	BinDir string
	// Account runs the server when we are root, which Postgres refuses; empty: the cluster's owner, else retune,
	// postgres or nobody.
	Account string

	// Ephemeral gives up durability for speed: for tests.
	Ephemeral bool
	// Template is a prepared cluster that is copied instead of making a new one: for tests.
	Template string
}
