package loadtest

import (
	"encoding/json"
	"time"
)

// Shape is a scenario's load, as its file in k6/ says: the single source for both drivers and for charts.
type Shape struct {
	Name        string  `json:"name"`
	Description string  `json:"description"` // one sentence
	Phases      []Phase `json:"phases"`
	Events      []Event `json:"events,omitempty"`
	Clients     int     `json:"clients"`           // how many client addresses the requests come from
	Path        string  `json:"path,omitempty"`    // "/" by default
	HoldOut     bool    `json:"holdout,omitempty"` // judged in standard and nightly cycles, but never shown to a generator
	Closed      *Closed `json:"closed,omitempty"`  // a closed loop of clients instead of phases: the reference load only
}

// Phase is a part of a shape in which the rate goes in a straight line.
type Phase struct {
	Name     string   `json:"name"`
	Duration Duration `json:"duration"`
	From     float64  `json:"from"` // requests per second at its start
	To       float64  `json:"to"`   // at its end
}

// Event is something that happens to a backend on the timeline.
type Event struct {
	At      Duration `json:"at"` // from the start of the measured phase
	Action  string   `json:"action"`
	Backend string   `json:"backend"`
	Value   float64  `json:"value,omitempty"` // error rate or slowdown factor
}

// Actions of an Event.
const (
	ActionFail      = "fail"
	ActionRevive    = "revive"
	ActionSlowdown  = "slowdown"
	ActionErrorRate = "error_rate"
)

// Closed is a loop of virtual users with think time.
type Closed struct {
	Users    int      `json:"users"`
	Think    Duration `json:"think"`
	Duration Duration `json:"duration"`
}

// Duration is a time.Duration that is a string such as "1m30s" in JSON.
type Duration time.Duration

// MarshalJSON writes the string form.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads the string form.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// Profile is how long and how hard scenarios are run.
type Profile string

// The profiles.
const (
	Quick    Profile = "quick"    // minutes; windows and cooldown at a fifth of their length
	Standard Profile = "standard" // half an hour
	Nightly  Profile = "nightly"  // hours
)

// Scenario is one run to be made: a shape as a profile scales it, against a target.
type Scenario struct {
	Shape    Shape             // as it is run: scaled to the profile already, see Shape.Scaled
	Profile  Profile           // for the record
	Target   string            // base URL of the traffic listener
	Controls map[string]string // backend id → URL of its control endpoint, for events
	Warm     time.Duration     // unmeasured load before the measured phases, at the first phase's rate
	Timeout  time.Duration     // of one request; 5 s by default
	Seed     uint64            // same seed, same arrivals and same clients
	Script   string            // path of a k6 script of the user's own; k6 only
}

// Runs reports whether a driver (K6 or Builtin: one that was chosen) can run the scenario: a k6 script of the user's
// own, with or without a shape beside it, is for k6 alone.
func (s Scenario) Runs(d Driver) bool { return s.Script == "" || d == K6 }

// Driver is what produces the load.
type Driver string

// The drivers; Auto takes k6 where it is installed.
const (
	Auto    Driver = "auto"
	K6      Driver = "k6"
	Builtin Driver = "builtin"
)

// Progress is how a run stands, about once a second.
type Progress struct {
	Scenario  string        `json:"scenario"`
	Phase     string        `json:"phase"` // warm, or the shape's phase
	Elapsed   time.Duration `json:"elapsed_ns"`
	Planned   time.Duration `json:"planned_ns"`
	RPS       float64       `json:"rps"` // of the last whole second, like all that follows
	P50MS     float64       `json:"p50_ms"`
	P95MS     float64       `json:"p95_ms"`
	P99MS     float64       `json:"p99_ms"`
	ErrorRate float64       `json:"error_rate"`
	Dropped   int64         `json:"dropped"`
}

// Result is what a run measured; only its measured phases count.
type Result struct {
	Scenario      string        `json:"scenario"`
	Driver        Driver        `json:"driver"`
	DriverVersion string        `json:"driver_version"`
	Started       time.Time     `json:"started_at"` // of the measured phase
	Duration      time.Duration `json:"duration_ns"`

	Planned   int64   `json:"planned"` // requests that the shape asks for
	Requests  int64   `json:"requests"`
	Failed    int64   `json:"failed"` // no answer, or a status of 400 or more
	Dropped   int64   `json:"dropped"`
	RPS       float64 `json:"rps"` // answered without failure, per second of the measured phase
	ErrorRate float64 `json:"error_rate"`

	// Latency counts from the scheduled time. A time-out counts at its full length, a refused connection not at all.
	AvgMS float64 `json:"avg_ms"`
	P50MS float64 `json:"p50_ms"`
	P90MS float64 `json:"p90_ms"`
	P95MS float64 `json:"p95_ms"`
	P99MS float64 `json:"p99_ms"`
	MaxMS float64 `json:"max_ms"`

	Series    []Second         `json:"series"`
	Marks     []Mark           `json:"marks,omitempty"`
	Status    map[string]int64 `json:"status,omitempty"` // HTTP status or error code → requests
	Histogram []byte           `json:"-"`                // HdrHistogram of microseconds, V2 compressed, in base64 as hdrhistogram.Decode reads it

	ExitCode  int      `json:"exit_code"`
	DriverCPU float64  `json:"driver_cpu"` // share of one core, over the run
	Log       []string `json:"log,omitempty"`
	// Invalid says, one sentence each, why this run is no evidence; empty: it is.
	Invalid []string `json:"invalid,omitempty"`
}

// Second is one second of the measured phase; NaN-free: a second without samples has 0 requests and 0 latencies.
type Second struct {
	Requests int64   `json:"requests"`
	Failed   int64   `json:"failed"`
	Dropped  int64   `json:"dropped"`
	AvgMS    float64 `json:"avg_ms"`
	P50MS    float64 `json:"p50_ms"`
	P95MS    float64 `json:"p95_ms"`
	P99MS    float64 `json:"p99_ms"`
}

// Mark is an event as it happened.
type Mark struct {
	At     time.Duration `json:"at_ns"` // from the start of the measured phase
	Action string        `json:"action"`
	Detail string        `json:"detail,omitempty"`
	// Failed says that the event could not be made to happen, and Detail why: its backend went on as before.
	Failed bool `json:"failed,omitempty"`
}
