package demo

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// errFull means that no slot is free and the queue has no room.
var errFull = errors.New("queue full")

// slots hands out a number of slots, first come, first served.
type slots struct {
	limit int // 0: no limit
	queue int // how many may wait

	mu      sync.Mutex // guards what follows
	taken   int
	waiting list.List // of chan struct{}, closed when its slot is there
}

func newSlots(limit, queue int) *slots { return &slots{limit: limit, queue: queue} }

// acquire waits for a slot. It fails with errFull, or with ctx's error once that is done; release gives the
// slot back otherwise.
func (s *slots) acquire(ctx context.Context) error {
	ready, place, err := s.enter()
	if ready == nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		s.leave(ready, place)
		return ctx.Err()
	}
}

// enter takes a slot (nil, nil, nil) or a place in the queue.
func (s *slots) enter() (ready chan struct{}, place *list.Element, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.limit == 0 || s.taken < s.limit:
		s.taken++
		return nil, nil, nil
	case s.waiting.Len() >= s.queue:
		return nil, nil, errFull
	}
	ready = make(chan struct{})
	return ready, s.waiting.PushBack(ready), nil
}

// leave gives up the place, and the slot if it came at the same moment.
func (s *slots) leave(ready chan struct{}, place *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-ready:
		s.pass()
	default:
		s.waiting.Remove(place)
	}
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass()
}

// pass hands a slot to the first in the queue. The caller holds mu.
func (s *slots) pass() {
	if first := s.waiting.Front(); first != nil {
		close(s.waiting.Remove(first).(chan struct{}))
		return
	}
	s.taken--
}
