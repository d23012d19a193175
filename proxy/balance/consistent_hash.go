package balance

import (
	"math/bits"
	"slices"
	"sync/atomic"
)

const (
	// virtualNodes is how many points each backend has on the ring, whatever its weight.
	virtualNodes = 150
	// overload is how many times the mean a backend may take.
	overloadNum, overloadDen = 5, 4
	// Up to freePicks a backend is nobody's overload: few picks are uneven by chance.
	freePicks = 64
	// The counts are halved after countsPerBackend picks per backend: what counts is the recent past.
	countsPerBackend = 1024
)

// consistentHash gives each client the next backend on a ring (Karger et al., 1997), so that a backend's loss
// moves only its own clients, with bounded load (Mirrokni et al., 2016): one that has had its share and a
// quarter passes clients on along the ring until it has not.
//
// Load is the share of recent picks, not of requests in flight: a backend that is slow by nature holds more in
// flight without having been given more, and would lose half of its clients to a bound on that.
type consistentHash struct {
	ring  []point // by hash
	index []uint32
	shift uint // 64 - bits of the index
	picks []atomic.Int64
	total atomic.Int64
	nodes []*Backend
}

// point is one virtual node.
type point struct {
	hash uint64
	node uint32
}

func newConsistentHash(backends []*Backend, _ Options) Picker {
	p := &consistentHash{nodes: backends, picks: make([]atomic.Int64, len(backends))}
	for i, b := range backends {
		for v := range virtualNodes {
			p.ring = append(p.ring, point{hashPoint(b.id, v), uint32(i)})
		}
	}
	slices.SortFunc(p.ring, func(a, b point) int {
		if a.hash < b.hash {
			return -1
		}
		return 1
	})
	p.buildIndex()
	return p
}

// buildIndex notes, for each value of a hash's top bits, the first point that is not below it: a look-up is
// a step or two instead of a binary search.
func (p *consistentHash) buildIndex() {
	width := bits.Len(uint(len(p.ring)))
	p.shift = uint(64 - width)
	p.index = make([]uint32, 1<<width)
	at := 0
	for i := range p.index {
		for at < len(p.ring) && p.ring[at].hash < uint64(i)<<p.shift {
			at++
		}
		p.index[i] = uint32(at)
	}
}

func (p *consistentHash) Pick(key uint64) *Backend {
	if len(p.nodes) == 0 {
		return nil
	}
	node := p.bounded(p.owner(mix(key + golden)))
	p.count(node)
	return p.nodes[node]
}

// owner is the place on the ring of the first point at or after hash.
func (p *consistentHash) owner(hash uint64) int {
	at := int(p.index[hash>>p.shift])
	for at < len(p.ring) && p.ring[at].hash < hash {
		at++
	}
	if at == len(p.ring) {
		return 0
	}
	return at
}

// bounded is the first node from that place on which has room. The one with the fewest picks always has.
func (p *consistentHash) bounded(at int) uint32 {
	n := int64(len(p.nodes))
	limit := max(freePicks, (overloadNum*(p.total.Load()+1)+overloadDen*n-1)/(overloadDen*n))
	first := p.ring[at].node
	for i := range p.ring {
		node := p.ring[(at+i)%len(p.ring)].node
		if p.picks[node].Load() < limit {
			return node
		}
	}
	return first // only while others count at the same moment
}

func (p *consistentHash) count(node uint32) {
	p.picks[node].Add(1)
	most := int64(countsPerBackend * len(p.nodes))
	if total := p.total.Add(1); total >= most && p.total.CompareAndSwap(total, total-most/2) {
		for i := range p.picks {
			p.picks[i].Add(-p.picks[i].Load() / 2)
		}
	}
}
