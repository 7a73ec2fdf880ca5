package benchmarks_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/benchmarks"
)

// lab runs one command line of gstore-lab and returns its exit code and output.
func lab(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), args, strings.NewReader(""), &out, &errs, benchmarks.NewBench)
	return code, out.String(), errs.String()
}

func TestBenchIORefuses(t *testing.T) {
	for _, args := range [][]string{{"bench", "io", "--size-mib", "1"}, {"bench", "io", "--split", "5"}, {"bench", "nothing"}, {"bench", "io", "--repeats", "0"}} {
		if code, _, stderr := lab(t, args...); code != cli.ExitUsage {
			t.Errorf("%v: exit code %d\n%s", args, code, stderr)
		}
	}
	if code, stdout, _ := lab(t, "bench"); code != cli.ExitOK || !strings.Contains(stdout, "io") {
		t.Errorf("bench: exit code %d\n%s", code, stdout)
	}
}
