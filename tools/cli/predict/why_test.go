package predict_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestExplain: --explain is about what predict says; its rows add up, another class can be asked for, text and picture show the largest
// shares, and what cannot be explained is refused with a reason.
func TestExplain(t *testing.T) {
	race.SkipArithmetic(t)
	work := t.TempDir()
	dir, picture := filepath.Join(work, "cora.gstore"), filepath.Join(work, "why.svg")
	clitest.MustRun(t, "demo", "--dir", dir, "--epochs", "5", "--quiet")
	for _, node := range []string{"15", "1433"} {
		said := ask(t, "", dir, node)[0]
		sums, from := map[string]float64{}, map[string]float64{}
		for _, r := range ask(t, "", dir, node, "--explain") { // node, class, says, from, part, name, source, target, share, own
			if r[0] != node || r[1] != said[1] || math.Abs(number(t, r[2])-number(t, said[2])) > 1e-3 {
				t.Fatalf("explained is %v, said %v", r, said[:3])
			}
			sums[r[4]] += number(t, r[8])
			from[r[4]] = number(t, r[3])
		}
		for _, part := range []string{"feature", "edge"} {
			if change := number(t, said[2]) - from[part]; sums[part] == 0 || math.Abs(sums[part]-change) > .02*math.Abs(change)+1e-3 {
				t.Errorf("node %s: shares of part %s add up to %v, the change is %v", node, part, sums[part], change)
			}
		}
	}
	if other := ask(t, "", dir, "15", "--explain=Theory"); other[0][1] != "Theory" {
		t.Errorf("class Theory asked for, explained is %v", other[0])
	}

	_, out, _ := clitest.Run(t, "predict", dir, "15", "1433", "--explain", "--top", "2")
	first, _, _ := strings.Cut(out, "what comes along")
	if !strings.HasPrefix(out, "15: probability of ") || !strings.Contains(out, "\n1433: probability of ") || strings.Count(first, "  x[") != 2 || !strings.Contains(first, " others\n") {
		t.Errorf("text of two nodes, two shares each:\n%s", out)
	}
	clitest.MustRun(t, "predict", dir, "1433", "--explain", "--out", picture, "--quiet")
	b, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	tags := map[string]int{}
	for d := xml.NewDecoder(bytes.NewReader(b)); ; {
		x, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
		if e, ok := x.(xml.StartElement); ok {
			tags[e.Name.Local]++
		}
	}
	if tags["circle"] < 2 || tags["line"] < 2 || tags["text"] < 10 {
		t.Errorf("the picture has %v", tags)
	}

	for _, c := range []struct{ args, want string }{
		{"--explain", "name the nodes"},
		{"15 --explain=Nix", "the model's classes are Case_Based"},
		{"15 16 --explain --out " + picture, "a picture is of one node, 2 are named"},
		{"15 --out " + picture, "it is for --explain"},
		{"15 --explain --format svg", "name a file with --out"},
		{"15 --explain --nearest cosine", "--nearest asks for similar nodes"},
	} {
		if code, _, stderr := clitest.Run(t, append([]string{"predict", dir}, strings.Fields(c.args)...)...); code != cli.ExitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit code %d, %s", c.args, code, stderr)
		}
	}
	code, _, stderr := clitest.Run(t, "predict", dir, "1433", "--explain", "--mem", "1MiB")
	var least int
	if _, rest, ok := strings.Cut(stderr, "the smallest that works is "); !ok || code != cli.ExitFailed {
		t.Fatalf("1 MiB: exit code %d, %s", code, stderr)
	} else if _, err := fmt.Sscanf(rest, "%dMiB", &least); err != nil {
		t.Fatal(err)
	}
	clitest.MustRun(t, "predict", dir, "1433", "--explain", "--mem", fmt.Sprintf("%dMiB", least))
}
