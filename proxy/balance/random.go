package balance

// random draws one backend, each with the same chance.
type random struct{ chooser }

func newRandom(backends []*Backend, o Options) Picker { return &random{newChooser(backends, o)} }

func (p *random) Pick(uint64) (b *Backend) {
	for range p.backends {
		b = p.backends[below(len(p.backends), p.dice.roll())]
		if admits(b, p.dice) {
			break
		}
	}
	return b
}
