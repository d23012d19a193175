package advisor

import (
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// named is a figure that a text names.
type named struct {
	text  string // as it stands there, with its unit
	value float64
	unit  string  // a key of units; empty: none that is known
	by    factors // units of unit
	off   float64 // how far it may be off: half of its last digit
	bare  bool    // nothing is glued to it: "3", not "3k"
}

// factors lead from a figure to what each quantity is kept in; 0: it can't measure that.
type factors [unsaid + 1]float64

// units are what a figure may measure by its unit.
var units = map[string]factors{
	"":        {latency: 1, rate: 1, share: 1, change: 1, count: 1, seconds: 1, unsaid: 1},
	"%":       {share: 0.01, change: 0.01},
	"points":  {share: 0.01},
	"µs":      {latency: 0.001},
	"ms":      {latency: 1, seconds: 0.001},
	"s":       {latency: 1000, seconds: 1},
	"minutes": {latency: 60_000, seconds: 60},
	"hours":   {latency: 3_600_000, seconds: 3600},
	"rps":     {rate: 1},
	"×":       {change: 1, count: 1},
}

// unitWords are the spellings of units; what is no key is one.
var unitWords = map[string]string{
	"percent": "%", "per cent": "%", "pct": "%", "prozent": "%",
	"point": "points", "pp": "points", "pt": "points", "pts": "points", "percentage point": "points", "percentage points": "points",
	"%-points": "points", "% points": "points",
	"us": "µs", "μs": "µs", "microsecond": "µs", "microseconds": "µs",
	"msec": "ms", "millis": "ms", "millisecond": "ms", "milliseconds": "ms",
	"sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "minutes", "min": "minutes", "mins": "minutes", "minute": "minutes",
	"h": "hours", "hour": "hours",
	"req/s": "rps", "req/sec": "rps", "reqs/s": "rps", "requests/s": "rps", "requests/second": "rps", "requests per second": "rps",
	"requests a second": "rps", "qps": "rps", "/s": "rps",
	"x": "×", "times": "×", "fold": "×",
}

var (
	numberRE = regexp.MustCompile(`^(?:\d{1,3}(?:[,'’\x{a0}\x{2009}\x{202f}]\d{3})+\b|\d+)(?:[.,]\d+)?(?:[eE][-+]?\d+)?`)
	unitRE   = longestOf(unitWords, units)
	// goDurationRE is how rule files write durations of more than a minute: 1m30s.
	goDurationRE = regexp.MustCompile(`^(?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?s\b`)
	thousandRE   = regexp.MustCompile(`^[kK]\b`) // as in 10k rps
	ordinalRE    = regexp.MustCompile(`^(?:st|nd|rd|th|xx)\b`)
	wordRE       = regexp.MustCompile(`^\pL+`)
	rangeRE      = regexp.MustCompile(`^ ?(?:-|–|—|−|to|\.\.+|…) ?$`)
)

// longestOf matches the longest spelling of a unit, after a space or a hyphen or nothing.
func longestOf(words map[string]string, keys map[string]factors) *regexp.Regexp {
	var all []string
	for w := range words {
		all = append(all, regexp.QuoteMeta(w))
	}
	for k := range keys {
		if k != "" {
			all = append(all, regexp.QuoteMeta(k))
		}
	}
	slices.Sort(all)
	re := regexp.MustCompile(`^(?i)[\s\x{a0}\x{2009}\x{202f}-]?(?:` + strings.Join(all, "|") + `)`)
	re.Longest()
	return re
}

// figuresIn finds the figures of a text: numbers in digits of any script, with their units. A number that is part of
// a name, such as p95, P2C, v9, server-1 or 5xx, is none.
func figuresIn(text string) []named {
	text = plainDigits(text)
	var out []named
	end := 0 // of the last figure
	for i := 0; i < len(text); {
		if text[i] < '0' || text[i] > '9' {
			i++
			continue
		}
		f, n := readFigure(text[i:])
		from := signBefore(text, i, end)
		if partOfName(text, from, end) || n == 0 {
			i += len(alphanumeric.FindString(text[i:]))
			continue
		}
		f.by = units[f.unit]
		if last := len(out) - 1; last >= 0 && out[last].unit == "" && rangeRE.MatchString(text[end:i]) {
			out[last].unit, out[last].by = f.unit, f.by // "300 to 412 ms"
		}
		if from < i && text[from:i] != "+" {
			f.value = -f.value
		}
		f.text = strings.TrimSpace(text[from : i+n])
		out = append(out, f)
		i += n
		end = i
	}
	return out
}

var alphanumeric = regexp.MustCompile(`^[0-9A-Za-z_]+`)

// signBefore is where the sign of a number begins, or the number itself where it has none; a dash between two figures is
// none.
func signBefore(text string, at, end int) int {
	for _, sign := range []string{"-", "+", "−"} {
		if from := at - len(sign); from >= end && strings.HasSuffix(text[:at], sign) && (end == 0 || from > end) {
			return from
		}
	}
	return at
}

// partOfName reports whether a letter, a digit or an underscore stands right before what begins at from; what ends there is
// another figure where a range is meant.
func partOfName(text string, from, end int) bool {
	if from == 0 || from == end {
		return false
	}
	c := text[from-1]
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// readFigure reads the figure that text begins with, and how many bytes it takes; 0 where it is no figure.
func readFigure(text string) (named, int) {
	if d := goDurationRE.FindString(text); strings.ContainsAny(d, "hm") {
		return readDuration(d)
	}
	number := numberRE.FindString(text)
	f := readNumber(number)
	rest := text[len(number):]
	if ordinalRE.MatchString(rest) {
		return f, 0
	}
	n := len(number)
	if thousandRE.MatchString(rest) {
		f.value, f.bare = f.value*1000, false
		f.off = min(f.off*1000, roundest*math.Abs(f.value))
		n, rest = n+1, rest[1:]
	}
	if u := unitRE.FindString(rest); u != "" && !continues(u, rest[len(u):]) {
		f.unit = unitOf(u)
		return f, n + len(u)
	}
	if glued := wordRE.FindString(rest); glued != "" && glued[0] < 0x80 {
		f.bare = false
		n += len(glued)
	}
	return f, n
}

// continues reports whether what looks like a unit is the beginning of a longer word: "5 scenarios" are no 5 s.
func continues(unit, rest string) bool {
	letter := func(c byte) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
	}
	return rest != "" && letter(unit[len(unit)-1]) && letter(rest[0])
}

func unitOf(text string) string {
	word := strings.ToLower(strings.TrimLeft(text, " -\t\n\u00a0\u2009\u202f"))
	if key, spelt := unitWords[word]; spelt {
		return key
	}
	return word
}

// readDuration reads 1m30s.
func readDuration(text string) (named, int) {
	f := named{text: text, unit: "s", bare: true, off: 0.5}
	for rest := text; rest != ""; {
		at := strings.IndexAny(rest, "hms")
		v, err := strconv.ParseFloat(rest[:at], 64)
		if err != nil {
			return f, 0
		}
		f.value += v * units[unitOf(rest[at:at+1])][seconds]
		rest = rest[at+1:]
	}
	return f, len(text)
}

// roundest is how far a figure written with k or an exponent may be off, as a share of it: 1e3 is not all from 500 to 1500.
const roundest = 0.05

// readNumber reads digits with separators of thousands or a decimal comma.
func readNumber(text string) named {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	mantissa = separators.Replace(mantissa)
	if i := strings.LastIndexByte(mantissa, ','); i >= 0 && (len(mantissa)-i != 4 || strings.HasPrefix(mantissa, "0,")) {
		mantissa = mantissa[:i] + "." + mantissa[i+1:]
	}
	mantissa = strings.ReplaceAll(mantissa, ",", "")
	_, decimals, _ := strings.Cut(mantissa, ".")
	power, _ := strconv.Atoi(exponent)
	v, err := strconv.ParseFloat(mantissa+"e"+strconv.Itoa(power), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		v = math.NaN()
	}
	f := named{text: text, value: v, off: 0.5 * math.Pow10(power-len(decimals)), bare: true}
	if exponent != "" {
		f.off = min(f.off, roundest*math.Abs(v))
	}
	return f
}

var separators = strings.NewReplacer("'", "", "’", "", "\u00a0", "", "\u2009", "", "\u202f", "")

// plainDigits writes the digits of every script as 0 to 9.
func plainDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 {
			return r
		}
		for _, span := range unicode.Nd.R16 { // each is tens of digits in a row, from 0 on
			if lo := rune(span.Lo); lo <= r && r <= rune(span.Hi) {
				return '0' + (r-lo)%10
			}
		}
		for _, span := range unicode.Nd.R32 {
			if lo := rune(span.Lo); lo <= r && r <= rune(span.Hi) {
				return '0' + (r-lo)%10
			}
		}
		return r
	}, text)
}
