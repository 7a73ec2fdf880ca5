package training_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestImportance: what tells the label is found among a table's columns, numbers and text, in one partition and in several, precomputed or
// not, and what does not costs next to nothing.
func TestImportance(t *testing.T) {
	t.Chdir(t.TempDir())
	var nodes, edges strings.Builder
	nodes.WriteString("id,noise,tells,town,label\n")
	edges.WriteString("src,dst\n")
	for i := range 400 {
		class := i * 7 % 2
		fmt.Fprintf(&nodes, "n%d,%d,%d,%s,%c\n", i, i*31%17, 10*class+i%3, []string{"ulm", "bonn"}[i/2%2], "ab"[class])
		fmt.Fprintf(&edges, "n%d,n%d\nn%d,n%d\n", i, (i+2)%400, i, (i*13+5)%400)
	}
	clitest.Put(t, ".", map[string][]byte{"n.csv": []byte(nodes.String()), "e.csv": []byte(edges.String())})
	for name, c := range map[string]struct{ ingest, train []string }{
		"one partition": {},
		"several":       {ingest: []string{"--partitions", "5", "--undirected"}},
		"precomputed":   {ingest: []string{"--partitions", "3", "--undirected", "--precompute-hops", "1"}, train: []string{"--precomputed-hop"}},
		"gcn":           {ingest: []string{"--undirected"}, train: []string{"--model", "gcn"}},
	} {
		t.Run(name, func(t *testing.T) {
			clitest.MustRun(t, append([]string{"ingest", "e.csv", name, "--nodes", "n.csv", "--use", "town", "--quiet"}, c.ingest...)...)
			clitest.MustRun(t, append([]string{"train", name, "--epochs", "30", "--quiet"}, c.train...)...)
			events := clitest.Events(t, "eval", name, "--importance", "--mem", "200MiB")
			loses, order := map[string]float64{}, []string{}
			for _, e := range events {
				if e["event"] == "importance" {
					f := e["feature"].(string)
					loses[f], order = e["loses"].(float64), append(order, f)
					if e["split"] != "valid" || e["whole"].(float64) < 60 {
						t.Errorf("%v", e)
					}
				}
			}
			if len(loses) != 3 || order[0] != "tells" || loses["tells"] < 10 || loses["noise"] > loses["tells"]/3 || loses["town"] > loses["tells"]/3 {
				t.Errorf("lost by %v: %v, expected most by tells", order, loses)
			}
			if last := events[len(events)-1]; last["event"] != "summary" {
				t.Errorf("the last event is %v", last)
			}
			code, told, errs := clitest.Run(t, "eval", name, "--importance")
			if at := strings.Index(told, "importance of features: by how much accuracy in % of valid nodes"); code != cli.ExitOK || at < strings.Index(told, "model") || !strings.Contains(told[at:], "\n  tells ") {
				t.Errorf("exit %d: %s%s", code, told, errs)
			}
		})
	}
}
