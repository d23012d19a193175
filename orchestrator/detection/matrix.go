package detection

import "retune/proxy/traffic"

// Matrix counts windows by their true state and by the state that they were named: truth → named → windows.
type Matrix map[traffic.State]map[traffic.State]int

// Named is how the proxy's detection did.
func Named(reports ...Report) Matrix {
	return count(reports, func(w Window) traffic.State { return w.Named })
}

// Classified is how the classifier did, in the windows that it labelled.
func Classified(reports ...Report) Matrix {
	return count(reports, func(w Window) traffic.State { return w.Classified })
}

func count(reports []Report, name func(Window) traffic.State) Matrix {
	m := Matrix{}
	for _, r := range reports {
		for _, w := range r.Windows {
			if w.Truth == "" || name(w) == "" {
				continue
			}
			if m[w.Truth] == nil {
				m[w.Truth] = map[traffic.State]int{}
			}
			m[w.Truth][name(w)]++
		}
	}
	return m
}

// Across is how many windows lie across two true states. They are in no matrix: either name would be half right.
func Across(reports ...Report) (n int) {
	for _, r := range reports {
		for _, w := range r.Windows {
			if w.Truth == "" {
				n++
			}
		}
	}
	return n
}

// Windows is how many windows the matrix counts.
func (m Matrix) Windows() (n int) {
	for _, s := range traffic.States() {
		n += m.True(s)
	}
	return n
}

// Agreed is how many windows were named as they truly were.
func (m Matrix) Agreed() (n int) {
	for _, s := range traffic.States() {
		n += m[s][s]
	}
	return n
}

// True is how many windows truly were in a state.
func (m Matrix) True(s traffic.State) (n int) {
	for _, windows := range m[s] {
		n += windows
	}
	return n
}
