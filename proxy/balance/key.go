package balance

import (
	"encoding/binary"
	"net/netip"

	"github.com/cespare/xxhash/v2"
)

// Key hashes a client's address for Pick. It is the same in every process and release, so that clients keep
// their backend over restarts. An IPv4-mapped IPv6 address counts as its IPv4 address; zones are ignored.
func Key(a netip.Addr) uint64 {
	bytes := a.Unmap().As16() // As16 maps IPv4 back, so both forms come to the same bytes
	return xxhash.Sum64(bytes[:])
}

// mix is the 64-bit finaliser of splitmix64 (Steele et al., 2014): every input bit reaches every output bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// hashPoint places the i-th virtual node of a backend on the ring.
func hashPoint(id string, i int) uint64 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(i))
	d := xxhash.New()
	d.WriteString(id)
	d.Write(n[:])
	return mix(d.Sum64())
}
