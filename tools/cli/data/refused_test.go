package data_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestIngestKnowsTrainingsBudget: where a store is made within a budget that training it does not do with, ingest says so, with the budget
// that training then names; within that it is silent, and training works.
func TestIngestKnowsTrainingsBudget(t *testing.T) {
	t.Chdir(t.TempDir())
	edges, nodes := &strings.Builder{}, &strings.Builder{}
	fmt.Fprintln(edges, "src,dst,relation")
	fmt.Fprint(nodes, "id,label")
	for d := range 600 {
		fmt.Fprintf(nodes, ",x.%d", d)
	}
	for i := range 4001 {
		fmt.Fprintf(nodes, "\n%d,%d", i, i%60)
		for d := range 600 {
			fmt.Fprintf(nodes, ",%d", (i*d)%7)
		}
		for k := range 6 {
			fmt.Fprintf(edges, "%d,%d,r%d\n", i, (i*31+k*k*97)%4001, k)
		}
	}
	clitest.Put(t, ".", map[string][]byte{"e.csv": []byte(edges.String()), "n.csv": []byte(nodes.String() + "\n")})
	refusals := 0
	for k, mem := range []string{"84MiB", "96MiB", "120MiB", "400MiB"} {
		dir := filepath.Join(t.TempDir(), fmt.Sprint(k))
		code, _, told := clitest.Run(t, "ingest", "e.csv", dir, "--nodes", "n.csv", "--mem", mem)
		if code != cli.ExitOK {
			continue // it needs more itself
		}
		warns := strings.Contains(told, "training it within --mem "+mem+" is refused")
		code, _, says := clitest.Run(t, "train", dir, "--mem", mem, "--epochs", "1")
		if refused := code != cli.ExitOK; refused != warns {
			t.Errorf("within %s ingest says %q, training exits %d: %s", mem, told, code, says)
		} else if refused {
			refusals++
			_, why, _ := strings.Cut(says, "memory budget too small")
			if why, _, _ = strings.Cut(why, ":"); !strings.Contains(told, "memory budget too small"+why) {
				t.Errorf("within %s ingest says %q, training %q", mem, told, says)
			}
		}
	}
	if refusals == 0 {
		t.Error("no budget was refused by training alone")
	}
}
