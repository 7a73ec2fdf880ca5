package main

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// Every phase of two small graphs ends well, within its budget, and has its row in the tables.
func TestScale(t *testing.T) {
	r := runner{epochs: 2, gstore: func(_ context.Context, args ...string) *exec.Cmd { return clitest.Command(args...) }}
	var b strings.Builder
	if err := r.run(t.Context(), &b, t.TempDir(), "20000,10000"); err != nil {
		t.Fatal(err)
	}
	for _, p := range phases {
		if n := strings.Count(b.String(), "\n| "+p.name+" |"); n != 3 {
			t.Errorf("%q has %d rows, expected one a size and one of its growth:\n%s", p.name, n, b.String())
		}
	}
	for _, table := range r.tables {
		for _, row := range table.rows {
			if row.cost.peak > table.mem && row.name != "generate" {
				t.Errorf("%s of 1/%d: a peak of %d bytes of %d", row.name, table.part, row.cost.peak, table.mem)
			}
		}
	}
	t.Log(b.String())
}
