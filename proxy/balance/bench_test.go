package balance

import (
	"fmt"
	"testing"
	"time"
)

func BenchmarkPick(b *testing.B) {
	for _, a := range Algorithms() {
		for _, n := range []int{4, 64, 1000} {
			b.Run(fmt.Sprintf("%s/%d", a, n), func(b *testing.B) {
				p := pickerOf(b, a, warmSet(n), Options{})
				b.ReportAllocs()
				key := uint64(0)
				for b.Loop() {
					key++
					p.Pick(key)
				}
			})
		}
	}
}

func BenchmarkBeginEnd(b *testing.B) {
	backend := NewBackend("a", nil, 1)
	now := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 100_000
		backend.End(backend.Begin(), now, 50*time.Millisecond, Success)
	}
}

func BenchmarkBeginEndParallel(b *testing.B) {
	backend := NewBackend("a", nil, 1)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		now := int64(0)
		for pb.Next() {
			now += 100_000
			backend.End(backend.Begin(), now, 50*time.Millisecond, Success)
		}
	})
}
