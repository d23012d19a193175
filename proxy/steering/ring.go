package steering

import (
	"sort"
	"sync"
)

// JournalSize is how many snapshots or decisions a proxy remembers: more than an hour of 1 s windows.
const JournalSize = 4096

// Ring is a bounded journal; the oldest entries make room for new ones. Safe for concurrent use.
//
// A cursor is the number of entries ever appended before the place it points at, so it stays good however many
// come later.
type Ring[T any] struct {
	mu      sync.Mutex
	size    int
	entries []T    // entry number n stands at n % size
	next    uint64 // the number of the next entry
}

// NewRing makes a ring that remembers size entries, at least 1.
func NewRing[T any](size int) *Ring[T] { return &Ring[T]{size: max(size, 1)} }

// Append adds an entry.
func (r *Ring[T]) Append(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.entries) < r.size {
		r.entries = append(r.entries, v)
	} else {
		r.entries[r.next%uint64(r.size)] = v
	}
	r.next++
}

// Since returns up to limit entries from the cursor on, oldest first, the cursor to go on from, and how many
// entries after the given cursor have been forgotten already. Cursor 0 is the beginning; limit 0 means all. A
// cursor from the future (of an earlier boot) counts as 0.
func (r *Ring[T]) Since(cursor uint64, limit int) (entries []T, next uint64, forgotten uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cursor > r.next {
		cursor = 0
	}
	first := max(cursor, r.oldest())
	forgotten = first - cursor
	n := r.next - first
	if limit > 0 {
		n = min(n, uint64(limit))
	}
	entries = make([]T, 0, n)
	for i := first; i < first+n; i++ {
		entries = append(entries, r.entries[i%uint64(r.size)])
	}
	return entries, first + n, forgotten
}

// Seek is the cursor before the first entry for which after holds; after has to hold for every later entry too,
// e.g. "at or after this instant".
func (r *Ring[T]) Seek(after func(T) bool) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.oldest()
	return first + uint64(sort.Search(len(r.entries), func(i int) bool {
		return after(r.entries[(first+uint64(i))%uint64(r.size)])
	}))
}

// oldest is the number of the oldest entry that is remembered. r.mu is held.
func (r *Ring[T]) oldest() uint64 { return r.next - uint64(len(r.entries)) }
