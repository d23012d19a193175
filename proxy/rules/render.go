package rules

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"retune/proxy/traffic"
)

// Setting is one threshold or gate as it stands in a rule file.
type Setting struct {
	Path    string // e.g. "detection.spike_rate"
	Value   string // e.g. "1.00"
	comment string
}

// Settings lists every threshold and gate in the order of the file.
func (r RuleSet) Settings() []Setting {
	d, s := r.Detection, r.Switching
	return []Setting{
		{"detection.window", span(d.Window), "1s..5m"},
		{"detection.low_traffic_rps", plain(d.LowTrafficRPS), "below it the choice of algorithm means nothing"},
		{"detection.gradual_increase_rate", fixed(d.GradualIncreaseRate, 2), "(rps - previous rps) / previous rps"},
		{"detection.spike_rate", fixed(d.SpikeRate, 2), ""},
		{"detection.overload_error_rate", fixed(d.OverloadErrorRate, 2), "of one backend"},
		{"detection.overload_latency", span(d.OverloadLatency), "average of one backend …"},
		{"detection.overload_latency_factor", fixed(d.OverloadLatencyFactor, 1), "… and at least this many times its own long-run average"},
		{"detection.latency_slope_windows", strconv.Itoa(d.LatencySlopeWindows), "least squares over the last N windows, ms per window"},
		{"switching.min_confidence", plain(s.MinConfidence), ""},
		{"switching.cooldown", span(s.Cooldown), ""},
		{"switching.max_switches_per_minute", strconv.Itoa(s.MaxSwitchesPerMinute), ""},
		{"switching.sustained_windows", strconv.Itoa(s.SustainedWindows), ""},
		{"switching.spike_sustained_windows", strconv.Itoa(s.SpikeSustainedWindows), ""},
	}
}

// Render writes the canonical form of a rule set: Parse gives it back unchanged, and rendering that gives the same
// bytes. Reasons are written in double quotes with everything escaped that is not plainly readable; bytes in them
// that are not UTF-8 become U+FFFD.
func Render(r RuleSet) []byte {
	var b bytes.Buffer
	line := func(text, comment string) {
		if comment != "" {
			text = fmt.Sprintf("%-32s # %s", text, comment)
		}
		b.WriteString(text + "\n")
	}
	line(fmt.Sprintf("version: %d", r.Version), "")
	line(fmt.Sprintf("parent: %d", r.Parent), "")
	line(fmt.Sprintf("origin: %s", r.Origin), "llm | local | human")
	section := ""
	for _, x := range r.Settings() {
		part, key, _ := strings.Cut(x.Path, ".")
		if part != section {
			line(part+":", "")
			section = part
		}
		line("  "+key+": "+x.Value, x.comment)
	}
	line("rules:", "all five states, each once")
	for _, state := range traffic.States() {
		line(renderRule(state, r.Rules[state]), "")
	}
	return b.Bytes()
}

// renderRule writes one rule on one line, with the reasons of all five below each other.
func renderRule(state traffic.State, r Rule) string {
	params := ""
	if r.Params.Decay != 0 {
		params = fmt.Sprintf(", params: { decay: %s }", span(r.Params.Decay))
	}
	return fmt.Sprintf("  %-18s{ algorithm: %-27s reason: %s%s }", state+":", r.Algorithm+",", quote(r.Reason), params)
}

// plain is the shortest decimal that reads back as v.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// fixed is plain with at least n decimals.
func fixed(v float64, n int) string {
	s := plain(v)
	whole, fraction, _ := strings.Cut(s, ".")
	if missing := n - len(fraction); missing > 0 {
		return whole + "." + fraction + strings.Repeat("0", missing)
	}
	return s
}

// span writes a duration without the parts that are zero: 5m, not 5m0s.
func span(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// quote writes a double-quoted YAML scalar on one line. Double quotes are the only style that can hold every text;
// unlike JSON's, the escapes of YAML include \x and \U, and a non-breaking space or U+2028 would end a line if it
// stood there unescaped.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range strings.ToValidUTF8(s, "\uFFFD") {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x100 && !unicode.IsPrint(c):
			fmt.Fprintf(&b, `\x%02x`, c)
		case c < 0x10000 && !unicode.IsPrint(c):
			fmt.Fprintf(&b, `\u%04x`, c)
		case !unicode.IsPrint(c):
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
