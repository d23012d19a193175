package advisor

import "regexp"

// PricesAsOf is the month of the price lists that costs are reckoned by. Whoever changes a price changes it too.
const PricesAsOf = "2025-08"

// prices in US dollars per million tokens, by model: prompt, completion; from the providers' public lists as of
// PricesAsOf. Discounts for cached prompts are left out, so a cost is an upper bound.
var prices = map[string]price{
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

// price is of a million tokens, in US dollars.
type price struct{ prompt, completion float64 }

// dated matches the date at the end of a pinned model's name, e.g. "gpt-4o-2024-08-06".
var dated = regexp.MustCompile(`-20\d\d-\d\d-\d\d$`)

// cost is what a call costs by prices; nil for a model that is not among them.
func cost(model string, promptTokens, completionTokens int) *float64 {
	p, known := prices[dated.ReplaceAllString(model, "")]
	if !known {
		return nil
	}
	usd := (p.prompt*float64(promptTokens) + p.completion*float64(completionTokens)) / 1e6
	return &usd
}
