package blocks

import (
	"fmt"
	"math"
)

// SizeText prints bytes for people.
func SizeText(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%.1f KiB", math.Ceil(float64(n)/102.4)/10)
	}
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MiB", math.Ceil(float64(n)/(1<<20)*10)/10)
	}
	return fmt.Sprintf("%.2f GiB", math.Ceil(float64(n)/(1<<30)*100)/100)
}
