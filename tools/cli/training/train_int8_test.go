package training_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainInt8: features kept as int8, read directly with a scale a column, train and
// evaluate like the float32 that they were; Cora's are exact in both.
func TestTrainInt8(t *testing.T) {
	input := clitest.Put(t, t.TempDir(), clitest.ReadCora(t).Numpy())
	stores := map[string]string{}
	for _, dtype := range []string{"float32", "int8"} {
		stores[dtype] = filepath.Join(t.TempDir(), dtype+".gstore")
		if code, _, stderr := clitest.Run(t, "ingest", input, stores[dtype], "--undirected", "--feature-dtype", dtype); code != cli.ExitOK {
			t.Fatal(stderr)
		}
	}
	for _, model := range [][]string{{"--model", "sage"}, {"--aggregator", "max"}, {"--model", "gat"}, {"--model", "gcn", "--residual"}} {
		results := map[string][]map[string]any{}
		for dtype, dir := range stores {
			results[dtype] = clitest.Events(t, append([]string{"train", dir, "--epochs", "2", "--hidden", "16", "--seed", "3"}, model...)...)
			events := results[dtype]
			sum := events[len(events)-1]
			eval := clitest.Events(t, "eval", dir, "--checkpoint", sum["model_file"].(string), "--splits", "test", "--mem", "136MiB")
			if got := eval[len(eval)-1]["test_accuracy"]; got != sum["test_accuracy"] {
				t.Errorf("%v, %s: eval says %v, training said %v", model, dtype, got, sum["test_accuracy"])
			}
		}
		a, b := clitest.Losses(results["float32"]), clitest.Losses(results["int8"])
		for i := range a {
			if math.Abs(a[i]-b[i]) > 1e-3 {
				t.Errorf("%v, epoch %d: loss %v with int8, %v with float32", model, i+1, b[i], a[i])
			}
		}
	}
}
