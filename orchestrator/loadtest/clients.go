package loadtest

import "fmt"

// foldSeed makes a 32-bit seed, which JavaScript can reckon with exactly.
func foldSeed(seed uint64) uint32 { return uint32(seed ^ seed>>32) }

// clientAddress is the address that request n (counted from the warm-up's first) comes from: one of clients addresses, drawn
// evenly by a hash (murmur3's finaliser), so that the same seed gives the same clients in the same order.
// k6/lib/scenario.js has the same.
func clientAddress(seed uint32, n int64, clients int) string {
	h := seed + uint32(n)*0x9e3779b9
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	i := (h^h>>16)%uint32(clients) + 1
	return fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
}
