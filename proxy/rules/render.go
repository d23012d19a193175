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

// Render writes the canonical form of a rule set: Parse gives it back unchanged, and rendering that gives the same
// bytes. Reasons are written in double quotes with everything escaped that is not plainly readable; bytes in them
// that are not UTF-8 become U+FFFD.
func Render(r RuleSet) []byte {
	var b bytes.Buffer
	line := func(key, value, comment string) {
		text := key + ": " + value
		if comment != "" {
			text = fmt.Sprintf("%-32s # %s", text, comment)
		}
		b.WriteString(text + "\n")
	}
	line("version", strconv.Itoa(r.Version), "")
	line("parent", strconv.Itoa(r.Parent), "")
	line("origin", string(r.Origin), "llm | local | human")
	d, s := r.Detection, r.Switching
	b.WriteString("detection:\n")
	line("  window", span(d.Window), "1s..5m")
	line("  low_traffic_rps", plain(d.LowTrafficRPS), "below it the choice of algorithm means nothing")
	line("  gradual_increase_rate", fixed(d.GradualIncreaseRate, 2), "(rps - previous rps) / previous rps")
	line("  spike_rate", fixed(d.SpikeRate, 2), "")
	line("  overload_error_rate", fixed(d.OverloadErrorRate, 2), "of one backend")
	line("  overload_latency", span(d.OverloadLatency), "average of one backend …")
	line("  overload_latency_factor", fixed(d.OverloadLatencyFactor, 1), "… and at least this many times its own long-run average")
	line("  latency_slope_windows", strconv.Itoa(d.LatencySlopeWindows), "least squares over the last N windows, ms per window")
	b.WriteString("switching:\n")
	line("  min_confidence", plain(s.MinConfidence), "")
	line("  cooldown", span(s.Cooldown), "")
	line("  max_switches_per_minute", strconv.Itoa(s.MaxSwitchesPerMinute), "")
	line("  sustained_windows", strconv.Itoa(s.SustainedWindows), "")
	line("  spike_sustained_windows", strconv.Itoa(s.SpikeSustainedWindows), "")
	fmt.Fprintf(&b, "%-32s # all five states, each once\n", "rules:")
	for _, state := range traffic.States() {
		b.WriteString(renderRule(state, r.Rules[state]))
	}
	return b.Bytes()
}

func renderRule(state traffic.State, r Rule) string {
	params := ""
	if r.Params.Decay != 0 {
		params = fmt.Sprintf(", params: { decay: %s }", span(r.Params.Decay))
	}
	return fmt.Sprintf("  %-18s{ algorithm: %-27s reason: %s%s }\n", state+":", r.Algorithm+",", quote(r.Reason), params)
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

// quote writes a double-quoted YAML scalar on one line.
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
