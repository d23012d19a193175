package rules

import (
	"strings"
)

// didYouMean names the word that was probably meant, or all that are possible.
func didYouMean(got string, words []string) string {
	best, distance := "", len(got)/3+2
	for _, w := range words {
		if d := edits(strings.ToUpper(shorten(got, 64)), strings.ToUpper(w)); d < distance {
			best, distance = w, d
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	return "want one of " + strings.Join(words, ", ")
}

// edits is the Levenshtein distance: how many bytes to insert, remove or replace to get from a to b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
