package advisor

import "retune/proxy/traffic"

// Labels is what a classifier makes of recorded windows, afterwards and with all of them before it: one traffic state
// per window and series. Windows that it was not shown, because they were too many, have none.
type Labels struct {
	Author string // model name, or "local"
	States [][]traffic.State
	Calls  []Call // every exchange that led here, the failed ones too
}
