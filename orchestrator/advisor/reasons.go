package advisor

import "retune/ruleversions"

func CheckReasons(reasons []ruleversions.Reason, e Evidence) []ruleversions.Reason { return reasons }
