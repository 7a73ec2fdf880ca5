package data_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli/clitest"
)

// Shells complete what flags may be, and ingest takes every word that they offer.
func TestShellsComplete(t *testing.T) {
	offered := func(args ...string) []string {
		t.Helper()
		code, out, errs := clitest.Run(t, append([]string{"__complete"}, args...)...)
		if code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, errs)
		}
		words := strings.Fields(out)
		return words[:slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, ":") })]
	}
	for _, c := range []struct{ command, flag, want string }{
		{"ingest", "--partitioner", "auto random range fennel gap hdr file:"},
		{"partition", "--partitioner", "random range fennel gap hdr file:"},
		{"append", "--feature-dtype", "float32 float16 bfloat16 float64 int8"},
		{"precompute", "--dtype", "float32 float16 bfloat16"},
	} {
		if got := strings.Join(offered(c.command, c.flag, ""), " "); got != c.want {
			t.Errorf("%s %s: shells offer %q, expected %q", c.command, c.flag, got, c.want)
		}
	}
	for _, flag := range []string{"dedup", "feature-dtype", "header", "ids", "missing", "quotes", "self-loops", "visit-order", "format", "partitioner"} {
		for _, value := range offered("ingest", "--"+flag, "") {
			if strings.HasSuffix(value, ":") {
				value += "assignment.txt"
			}
			// The last flag of a name counts. A usage error is 2, a graph that is not there 1.
			if code, _, errs := clitest.Run(t, "ingest", t.TempDir()+"/none", t.TempDir()+"/s", "--partitioner", "fennel", "--"+flag, value); code != 1 {
				t.Errorf("ingest --%s %s, which shells offer: exit code %d: %s", flag, value, code, errs)
			}
		}
	}
}
