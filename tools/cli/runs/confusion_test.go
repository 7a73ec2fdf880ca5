package runs

import (
	"fmt"
	"testing"

	"github.com/gstore/gstore/store/buffer/metrics"
)

// TestManyClasses: of many classes the mistakes made most often are listed.
func TestManyClasses(t *testing.T) {
	var lines []metrics.ConfusionRow
	name := func(c int) string { return fmt.Sprintf("class %d", c) }
	for c := range 200 {
		lines = append(lines, metrics.ConfusionRow{Split: "valid", Label: name(c), Predicted: map[string]int64{name(c): 100, name((c + 1) % 200): int64(c)}})
	}
	lines = append(lines, metrics.ConfusionRow{Split: "test", Label: "x", Predicted: map[string]int64{"x": 1}})
	tables := confusionTables(lines, noLink)
	if len(tables) != 2 || len(tables[0].Rows) > 0 || len(tables[0].Mistakes) != mistakesListed || len(tables[1].Rows) != 1 || tables[1].Split != "test" {
		t.Fatalf("%d tables: %+v", len(tables), tables)
	}
	if got, want := tables[0].Mistakes[0], (mistake{name(199), name(0), "", 199, "66.6"}); got != want {
		t.Errorf("the first mistake is %+v, expected %+v", got, want)
	}
}
