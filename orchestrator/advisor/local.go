package advisor

import "context"

type local struct{}

func (local) Advise(ctx context.Context, e Evidence) (Advice, error) { return Advice{}, nil }
