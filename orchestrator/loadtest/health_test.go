package loadtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthSaysHowNearARunIsToItsBounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		result Result
		check  CheckName
		value  float64
		want   CheckState
	}{
		{"97% of the plan", Result{Planned: 1000, Requests: 970}, CheckReached, 0.97, Sound},
		{"96.9% of the plan", Result{Planned: 1000, Requests: 969}, CheckReached, 0.969, Near},
		{"95% of the plan", Result{Planned: 1000, Requests: 950}, CheckReached, 0.95, Near},
		{"94.9% of the plan", Result{Planned: 1000, Requests: 949}, CheckReached, 0.949, Beyond},
		{"0.5% dropped", Result{Planned: 1000, Requests: 995, Dropped: 5}, CheckDropped, 0.005, Sound},
		{"1% dropped", Result{Planned: 1000, Requests: 990, Dropped: 10}, CheckDropped, 0.01, Near},
		{"1.1% dropped", Result{Planned: 1000, Requests: 989, Dropped: 11}, CheckDropped, 0.011, Beyond},
		{"more than the plan", Result{Planned: 100, Requests: 990, Dropped: 10}, CheckDropped, 0.01, Near},
		{"nothing at all", Result{}, CheckDropped, 0, Sound},
		{"70% of a core", Result{DriverCPU: 0.7}, CheckDriverCPU, 0.7, Sound},
		{"80% of a core", Result{DriverCPU: 0.8}, CheckDriverCPU, 0.8, Near},
		{"81% of a core", Result{DriverCPU: 0.81}, CheckDriverCPU, 0.81, Beyond},
		{"100 requests", Result{Requests: 100}, CheckRequests, 100, Sound},
		{"99 requests", Result{Requests: 99}, CheckRequests, 99, Beyond},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, got := range c.result.Health() {
				if got.Name == c.check {
					require.InDelta(t, c.value, got.Value, 1e-12)
					require.Equal(t, c.want, got.State)
					require.Equal(t, c.want == Sound, got.Says == "")
					return
				}
			}
			t.Fatal("no such check")
		})
	}
	for _, c := range (Result{Requests: 500}).Health() {
		require.NotEqual(t, CheckReached, c.Name, "a closed loop has no plan to reach")
	}
}
