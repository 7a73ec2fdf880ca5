package inspect_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestInspectStore(t *testing.T) {
	dir := storetest.Create(t, storetest.Random(storetest.Options{Nodes: 90, Partitions: 5, Edges: 400}))
	for _, c := range []struct {
		args   []string
		code   int
		stdout []string
	}{
		{[]string{"inspect", dir}, cli.ExitOK, []string{"nodes 90 edges", "400 (directed)", "4 classes", "8 × float32", "topology-000001.gsb", "i/o here", "version parent"}},
		{[]string{"inspect", dir, "--degrees", "no"}, cli.ExitOK, []string{"degrees not counted"}},
		{[]string{"inspect", dir, "--degrees", "yes", "--mem", "4KiB"}, cli.ExitOK, []string{"degree of nodes, in nodes, out mean 4.4 4.4 largest", "4–7"}},
		{[]string{"inspect", dir, "--degrees", "perhaps"}, cli.ExitUsage, nil},
		{[]string{"inspect", dir, "--elements", "2"}, cli.ExitOK, []string{"… 3 more"}},
		{[]string{"inspect", dir, "--version", "7"}, cli.ExitFailed, nil},
		{[]string{"inspect", t.TempDir()}, cli.ExitFailed, nil},
	} {
		code, stdout, stderr := clitest.Run(t, c.args...)
		if code != c.code {
			t.Errorf("%v: exit code %d, expected %d (%s)", c.args, code, c.code, stderr)
		}
		for _, want := range c.stdout {
			if !strings.Contains(strings.Join(strings.Fields(stdout), " "), want) {
				t.Errorf("%v: no %q in\n%s", c.args, want, stdout)
			}
		}
	}

	_, stdout, _ := clitest.Run(t, "--json", "inspect", dir)
	var summary struct {
		Event    string
		Bytes    int64
		Manifest struct{ Nodes, Edges int }
		History  struct{ Versions []struct{ Readable bool } }
		Degrees  struct{ In, Out struct{ Count, Sum int } }
		Sizes    struct {
			Nodes struct{ Bins []int } `json:"partition_nodes"`
		}
	}
	if err := json.Unmarshal([]byte(stdout), &summary); err != nil {
		t.Fatal(err)
	}
	if summary.Event != "summary" || summary.Manifest.Nodes != 90 || summary.Manifest.Edges != 400 || summary.Bytes == 0 || len(summary.History.Versions) != 1 ||
		summary.Degrees.In.Count != 90 || summary.Degrees.Out.Sum != 400 || len(summary.Sizes.Nodes.Bins) == 0 {
		t.Errorf("summary %+v", summary)
	}

	files, err := filepath.Glob(dir + "/data/label-*.gsb")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 5000); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := clitest.Run(t, "inspect", dir)
	if code != cli.ExitCorrupt || !strings.Contains(stderr, files[0]) {
		t.Errorf("a truncated file: exit code %d, %s", code, stderr)
	}
}
