package traffic

// What counts as rising: noise alone moves both figures a little in either direction.
const (
	risingRate  = 0.03 // rps change rate
	risingSlope = 0.01 // latency slope, as a share of the average latency, per window
)

// trend remembers the average latency of the last windows.
type trend struct {
	span   int       // how many windows the slope spans
	avg    []float64 // average latency in ms, oldest first; windows without a sample are left out
	last   int64     // the tick that the newest entry ends with
	rising int
}

// add takes in a window that ends with tick end, and returns the least-squares slope of the average latency over
// the last windows, in ms per window, and for how many windows in a row latency and rate have been rising. A
// snapshot that overlaps the newest entry replaces nothing and adds nothing.
func (t *trend) add(end int64, s *Snapshot) (slope float64, rising int) {
	if t.last != 0 && end-t.last < perWindow-1 {
		return leastSquares(t.avg), t.rising
	}
	t.last = end
	if s.AvgLatencyMS > 0 {
		t.avg = append(t.avg, s.AvgLatencyMS)
		t.avg = t.avg[max(len(t.avg)-max(t.span, 2), 0):]
	}
	slope = leastSquares(t.avg)
	if s.RPSChangeRate != nil && *s.RPSChangeRate >= risingRate && slope >= risingSlope*s.AvgLatencyMS && slope > 0 {
		t.rising++
	} else {
		t.rising = 0
	}
	return slope, t.rising
}

// leastSquares is the slope of the line through (0, y0), (1, y1), … with the least squared error; 0 for less than
// three points, which any line fits.
func leastSquares(y []float64) float64 {
	if len(y) < 3 {
		return 0
	}
	midX, midY := float64(len(y)-1)/2, 0.0
	for _, v := range y {
		midY += v / float64(len(y))
	}
	var xy, xx float64
	for i, v := range y {
		x := float64(i) - midX
		xy += x * (v - midY)
		xx += x * x
	}
	return xy / xx
}
