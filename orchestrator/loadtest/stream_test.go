package loadtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"
)

// readAll reads a stream to its end.
func readAll(text string) (*stream, Result) {
	s := &stream{measured: newMeasurement(time.Minute, 5*time.Second)}
	s.read(strings.NewReader(text))
	return s, s.measured.result(Scenario{Shape: Shape{Name: "x"}})
}

// recorded are the fixture's measured latencies, read by another way than the reader's.
func recorded(t *testing.T, stream []byte) (ms []float64) {
	for line := range bytes.Lines(stream) {
		var p struct {
			Metric, Type string
			Data         struct {
				Value float64
				Tags  map[string]string
			}
		}
		require.NoError(t, json.Unmarshal(line, &p))
		if p.Metric == metricDuration && p.Type == "Point" && p.Data.Tags["scenario"] == "main" {
			ms = append(ms, p.Data.Value)
		}
	}
	slices.Sort(ms)
	return ms
}

func TestTheRecordedStreamGivesItsExactFigures(t *testing.T) {
	raw, err := os.ReadFile("testdata/k6-stream.ndjson")
	require.NoError(t, err)
	want := recorded(t, raw)
	s, r := readAll(string(raw))
	require.EqualValues(t, bytes.Count(raw, []byte("\n")), s.lines.Load())
	require.Zero(t, s.garbage.Load())
	require.EqualValues(t, 130, len(want))
	require.EqualValues(t, len(want), r.Requests)
	require.Zero(t, r.Failed+r.Dropped)
	require.Equal(t, map[string]int64{"200": 130}, r.Status)
	var sum float64
	for _, v := range want {
		sum += v
	}
	require.InDelta(t, sum/130, r.AvgMS, 1e-9)
	require.Equal(t, want[129], r.MaxMS)
	for got, q := range map[float64]float64{r.P50MS: .5, r.P90MS: .9, r.P95MS: .95, r.P99MS: .99} {
		exact := want[int(math.Ceil(q*130))-1]
		require.InEpsilon(t, exact, got, 0.002, "quantile %v", q)
	}
	h, err := hdrhistogram.Decode(r.Histogram)
	require.NoError(t, err)
	require.EqualValues(t, 130, h.TotalCount())
}

var t0 = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// request is a line about a request that ended at offset at (seconds) and took ms.
func requestLine(at, ms float64, tags string) string {
	when := t0.Add(time.Duration(at * float64(time.Second))).Format(time.RFC3339Nano)
	return fmt.Sprintf(`{"metric":"http_req_duration","type":"Point","data":{"time":"%s","value":%v,"tags":{%s}}}`+"\n", when, ms, tags)
}

func eventLine(at float64, tags string) string {
	return strings.Replace(requestLine(at, 1, tags), metricDuration, metricEvent, 1)
}

const okMain = `"expected_response":"true","name":"app","scenario":"main","status":"200"`

func TestOnlyTheMeasuredLoadCounts(t *testing.T) {
	warm := strings.Replace(okMain, "main", "warm", 1)
	admin := strings.Replace(okMain, "app", "admin", 1)
	_, r := readAll(requestLine(0, 900, warm) + requestLine(1, 5, okMain) + requestLine(1, 700, admin) + requestLine(1, 700, `"name":"app"`))
	require.EqualValues(t, 1, r.Requests)
	require.Equal(t, 5.0, r.P95MS)
}

func TestARequestBelongsToTheSecondInWhichItStarted(t *testing.T) {
	_, r := readAll(eventLine(0, `"event":"begin"`) + requestLine(2.5, 2400, okMain) + requestLine(2.6, 10, okMain))
	require.Len(t, r.Series, 3)
	require.EqualValues(t, 1, r.Series[0].Requests)
	require.InEpsilon(t, 2400, r.Series[0].P95MS, 0.002)
	require.Equal(t, Second{}, r.Series[1])
	require.EqualValues(t, 1, r.Series[2].Requests)
	require.Equal(t, t0, r.Started)
}

func TestTheMarkedStartIsTakenFromItsTag(t *testing.T) {
	at := t0.Add(-40 * time.Millisecond)
	_, r := readAll(eventLine(0, fmt.Sprintf(`"at":"%d","event":"begin"`, at.UnixMilli())) + requestLine(1, 5, okMain))
	require.True(t, at.Equal(r.Started), r.Started)
}

func TestAnUnmarkedLoadStartsWithItsEarliestRequest(t *testing.T) {
	_, r := readAll(requestLine(1, 10, okMain) + requestLine(1.5, 700, okMain))
	require.Equal(t, t0.Add(800*time.Millisecond), r.Started)
}

func TestNoAnswerIsNoLatencyButATimeOutCountsInFull(t *testing.T) {
	refused := `"error_code":"1212","expected_response":"false","name":"app","scenario":"main","status":"0"`
	timeout := strings.Replace(refused, "1212", "1050", 1)
	reset := strings.Replace(refused, "1212", "1220", 1)
	answered := `"error_code":"1503","expected_response":"false","name":"app","scenario":"main","status":"503"`
	s, r := readAll(requestLine(1, 0, refused) + requestLine(1, 3, reset) + requestLine(6, 5000, timeout) + requestLine(2, 20, answered) + requestLine(2, 40, okMain))
	require.EqualValues(t, 5, r.Requests)
	require.EqualValues(t, 4, r.Failed)
	require.InDelta(t, 0.8, r.ErrorRate, 1e-9)
	require.EqualValues(t, 3, s.measured.total.timed)
	require.InEpsilon(t, 5000, r.MaxMS, 1e-9)
	require.InDelta(t, (5000+20+40)/3.0, r.AvgMS, 1e-9)
	require.Equal(t, map[string]int64{"1212": 1, "1220": 1, "1050": 1, "503": 1, "200": 1}, r.Status)
}

func TestDropsAndEventsAreKept(t *testing.T) {
	drop := strings.Replace(requestLine(1.2, 3, `"scenario":"main"`), metricDuration, metricDropped, 1)
	warm := strings.Replace(drop, `"main"`, `"warm"`, 1)
	_, r := readAll(eventLine(0, `"event":"begin"`) + drop + warm + eventLine(2, `"detail":"server-1 \"a\"","event":"fail"`) +
		eventLine(3, `"detail":"server-1 (control answered 0)","event":"revive","failed":"true"`))
	require.EqualValues(t, 3, r.Dropped)
	require.EqualValues(t, 3, r.Series[1].Dropped)
	require.Equal(t, []Mark{{At: 2 * time.Second, Action: "fail", Detail: `server-1 "a"`},
		{At: 3 * time.Second, Action: "revive", Detail: "server-1 (control answered 0)", Failed: true}}, r.Marks)
}

func TestGarbageIsCountedAndHarmsNothing(t *testing.T) {
	good := strings.TrimSpace(requestLine(1, 5, okMain))
	bad := []string{
		"", "hello", "{}", `{"metric":"http_req_duration"}`, `{"metric":"http_req_duration`,
		strings.Replace(good, "2026", "20x6", 1), strings.Replace(good, `"value":5`, `"value":abc`, 1), strings.Replace(good, `"value":5`, `"value":-5`, 1),
		strings.Replace(good, `"value":5`, `"value":NaN`, 1), strings.Replace(good, "2026", "2036", 1), // ten years off
		strings.Repeat("y", 3*maxLine),
	}
	s, r := readAll(good + "\n" + strings.Join(bad, "\n") + "\n" + good + "\n" + good[:len(good)/2])
	require.EqualValues(t, 2, r.Requests)
	require.EqualValues(t, len(bad), s.garbage.Load()) // all but the one ten years off, and the half line at the end
	require.EqualValues(t, 1, s.measured.strays)
}

func TestMemoryStaysBoundedUnderAFlood(t *testing.T) {
	s := &stream{measured: newMeasurement(time.Minute, 5*time.Second)}
	for i := range 20_000 {
		tags := fmt.Sprintf(`"name":"app","scenario":"main","status":"%d"`, i)
		s.line([]byte(requestLine(float64(i%300), 5, tags)))
		s.line([]byte(eventLine(1, fmt.Sprintf(`"event":"e%d"`, i))))
	}
	require.LessOrEqual(t, len(s.measured.status), maxStatus+1)
	require.Len(t, s.measured.marks, maxMarks)
	require.LessOrEqual(t, len(s.measured.seconds), s.measured.limit)
	require.Empty(t, s.measured.pending)
}

func TestLogsAreTakenTogether(t *testing.T) {
	raw, err := os.ReadFile("testdata/k6-target-down.stderr")
	require.NoError(t, err)
	var l logs
	l.read(bytes.NewReader(raw))
	require.Len(t, l.lines(), 1)
	require.Contains(t, l.lines()[0], fmt.Sprintf("connection refused\" (%d times)", bytes.Count(raw, []byte("\n"))))

	var many logs
	var text strings.Builder
	fmt.Fprintln(&text, `{"level":"warning","msg":"Request Failed","error":"refused","time":"x"}`)
	for i := range 100 {
		fmt.Fprintln(&text, "line", i, strings.Repeat("z", 5000))
	}
	many.read(strings.NewReader(text.String()))
	require.Equal(t, "warning: Request Failed: refused", many.lines()[0])
	require.Len(t, many.lines(), maxLogs+1)
	require.Equal(t, "… and 81 lines more", many.lines()[maxLogs])
}

func BenchmarkReader(b *testing.B) {
	raw, err := os.ReadFile("testdata/k6-stream.ndjson")
	require.NoError(b, err)
	requests := 0
	for b.Loop() {
		s := &stream{measured: newMeasurement(time.Minute, 5*time.Second)}
		s.read(bytes.NewReader(raw))
		requests += 130
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(requests)*1e5, "s/100k-requests")
}
