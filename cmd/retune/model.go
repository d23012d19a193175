package main

import (
	"fmt"
	"math"

	"retune/orchestrator"
	"retune/orchestrator/advisor"
)

// modelFlags bound and record what is asked of a model.
type modelFlags struct {
	MaxUSDPerCycle    float64 `name:"max-usd-per-cycle" help:"What a cycle's calls of a model may cost, in US dollars; 0: no cap." env:"RETUNE_MAX_USD_PER_CYCLE" default:"1" placeholder:"USD"`
	MaxUSDPerDay      float64 `name:"max-usd-per-day" help:"What all calls of a day (UTC) may cost; 0: no cap." env:"RETUNE_MAX_USD_PER_DAY" default:"10" placeholder:"USD"`
	MaxTokensPerCycle int64   `help:"How many tokens a cycle's calls may take, also where prices are not known; 0: no cap." env:"RETUNE_MAX_TOKENS_PER_CYCLE" default:"200000" placeholder:"N"`
	MaxTokensPerDay   int64   `help:"How many tokens all calls of a day (UTC) may take; 0: no cap." env:"RETUNE_MAX_TOKENS_PER_DAY" default:"2000000" placeholder:"N"`
	Record            string  `help:"Record every exchange with a model: in this cassette (FILE.jsonl), or in one per cycle in this folder." env:"RETUNE_RECORD" placeholder:"FILE|DIR" type:"path"`
}

// Validate refuses caps that bound nothing.
func (f *modelFlags) Validate() error {
	for flag, v := range map[string]float64{
		"--max-usd-per-cycle": f.MaxUSDPerCycle, "--max-usd-per-day": f.MaxUSDPerDay,
		"--max-tokens-per-cycle": float64(f.MaxTokensPerCycle), "--max-tokens-per-day": float64(f.MaxTokensPerDay),
	} {
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s %v: want 0 for no cap, or more", flag, v)
		}
	}
	return nil
}

func (f *modelFlags) caps() advisor.Caps {
	return advisor.Caps{CycleUSD: f.MaxUSDPerCycle, DayUSD: f.MaxUSDPerDay, CycleTokens: f.MaxTokensPerCycle, DayTokens: f.MaxTokensPerDay}
}

// openAI is how the generator openai asks its model.
func (f *orchestratorFlags) openAI(purse advisor.Purse) advisor.OpenAI {
	return advisor.OpenAI{Key: f.OpenaiApiKey, BaseURL: f.OpenaiBaseURL, Model: f.OpenaiModel, Purse: purse, Caps: f.caps(), Record: f.Record}
}

// replay is the generator that a cassette answers in a model's place.
func replay(cassette string) (orchestrator.Advisor, error) {
	c, err := advisor.ReadCassette(cassette)
	if err != nil {
		return nil, err
	}
	return advisor.New("openai", advisor.Config{OpenAI: advisor.OpenAI{Replay: c}})
}
