package advisor

import "regexp"

// prices in US dollars per million tokens, by model: prompt, completion; from the providers' public lists as of
// August 2025. Discounts for cached prompts are left out, so a cost is an upper bound.

var prices = map[string][2]float64{
	"gpt-4o":       {2.50, 10.00},
	"gpt-4o-mini":  {0.15, 0.60},
	"gpt-4.1":      {2.00, 8.00},
	"gpt-4.1-mini": {0.40, 1.60},
	"gpt-4.1-nano": {0.10, 0.40},
	"gpt-5":        {1.25, 10.00},
	"gpt-5-mini":   {0.25, 2.00},
	"gpt-5-nano":   {0.05, 0.40},
	"o3":           {2.00, 8.00},
	"o4-mini":      {1.10, 4.40},
}

// dated matches the date at the end of a pinned model's name, e.g. "gpt-4o-2024-08-06".
var dated = regexp.MustCompile(`-20\d\d-\d\d-\d\d$`)

// cost is what a call cost by prices; nil for a model that is not among them.
func cost(model string, promptTokens, completionTokens int) *float64 {
	p, known := prices[dated.ReplaceAllString(model, "")]
	if !known {
		return nil
	}
	usd := (p[0]*float64(promptTokens) + p[1]*float64(completionTokens)) / 1e6
	return &usd
}
