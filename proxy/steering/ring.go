package steering

// JournalSize is how many snapshots or decisions a proxy remembers: more than an hour of 1 s windows.
const JournalSize = 4096

// Ring is a bounded journal; the oldest entries make room for new ones. Safe for concurrent use.
type Ring[T any] struct{}

// NewRing makes a ring that remembers size entries.
func NewRing[T any](size int) *Ring[T] { return &Ring[T]{} }

// Append adds an entry.
func (r *Ring[T]) Append(v T) {}

// Since returns up to limit entries after the cursor, oldest first, the cursor to go on from, and how many
// entries after the given cursor have been forgotten already. Cursor 0 is the beginning; limit 0 means all.
func (r *Ring[T]) Since(cursor uint64, limit int) (entries []T, next uint64, forgotten uint64) {
	return nil, 0, 0
}

// Seek is the cursor before the first entry for which after holds. It has to hold for every later entry too.
func (r *Ring[T]) Seek(after func(T) bool) uint64 { return 0 }

// Last is the newest entry.
func (r *Ring[T]) Last() (v T, ok bool) { return v, false }
