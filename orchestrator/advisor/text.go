package advisor

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// oneLine takes out line breaks and what is no text.
func oneLine(text string) string {
	return strings.Join(strings.Fields(bounded(text, 4*maxText)), " ")
}

// bounded cuts text to at most n bytes at a character's start, marks the cut, and takes out what is no text.
func bounded(text string, n int) string {
	clean := readable(text)
	if len(clean) <= n {
		return clean
	}
	for n > 0 && !utf8.RuneStart(clean[n]) {
		n--
	}
	if n == 0 {
		return ""
	}
	return clean[:n] + "…"
}

// readable takes out what is no text.
func readable(text string) string { return strings.Map(legible, strings.ToValidUTF8(text, "�")) }

// legible drops what is not seen and yet changes what is: control characters, NUL above all; characters of no width,
// byte order marks and those that turn the direction of reading, by which a text reads otherwise than it is written.
func legible(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return r
	case unicode.IsControl(r), unicode.Is(unicode.Cf, r), r == '\u2028', r == '\u2029':
		return -1
	}
	return r
}
