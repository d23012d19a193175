package sim

// heap has its first element at 0. Unlike container/heap it puts nothing into an interface, which is half of
// a run's time.
type heap []entry

func (h *heap) push(x entry) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

// pop takes the first element; there must be one.
func (h *heap) pop() entry {
	s := *h
	first, last := s[0], len(s)-1
	s[0] = s[last]
	s[last] = entry{} // let go of what it does
	s = s[:last]
	*h = s
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s[child].before(s[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		s[i], s[least] = s[least], s[i]
		i = least
	}
}
