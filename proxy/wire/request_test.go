package wire

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// However a head is cut, it is refused when its faulty line is whole, and not before.
func TestIncompleteJudgesEachLineOnce(t *testing.T) {
	const sound = "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n"
	for faulty, want := range map[string]*Fault{
		"B : c\r\n": errHeaderName, " fold\r\n": errFold, "B: c\n": BareLF, "B: \x00\r\n": errControl, "Content-Length: x\r\n": errLength,
	} {
		head := []byte(sound + faulty)
		for step := 1; step <= len(head); step++ {
			judged := 0
			for judged < len(head) {
				next := min(judged+step, len(head))
				fault := Incomplete(head[:next], judged)
				if judged = next; judged == len(head) {
					require.Equal(t, want, fault, "%q by %d", faulty, step)
				} else {
					require.Nil(t, fault, "%q by %d", head[:next], step)
				}
			}
		}
	}
}

// A head of many short lines that comes byte by byte.
func BenchmarkDrippingHead(b *testing.B) {
	head := []byte("GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("a:\r\n", 1000))
	for b.Loop() {
		for i := 1; i < len(head); i++ {
			if fault := Incomplete(head[:i], i-1); fault != nil {
				b.Fatal(fault)
			}
		}
	}
}
