package data_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestBagsOfWordsStayAsTheyAre: 512 columns of zeros and ones, of which few are ones, are a vector of one scale; fewer columns, another value, many
// ones and --normalize=all are standardised. A missing word is 0, and what is appended stays as it is too.
func TestBagsOfWordsStayAsTheyAre(t *testing.T) {
	const nodes = 40
	table := func(first, words int, value func(v, w int) string) []byte {
		var b bytes.Buffer
		b.WriteString("id")
		for w := range words {
			fmt.Fprintf(&b, ",w%d", w)
		}
		b.WriteString(",label\n")
		for v := range nodes {
			fmt.Fprintf(&b, "n%d", first+v)
			for w := range words {
				b.WriteString("," + value(v, w))
			}
			fmt.Fprintf(&b, ",c%d\n", v%2)
		}
		return b.Bytes()
	}
	few := func(v, w int) string {
		if (v+w)%20 == 0 {
			return "1"
		}
		return "0"
	}
	edges := func(first int) []byte {
		var b bytes.Buffer
		b.WriteString("src,dst\n")
		for v := range nodes {
			fmt.Fprintf(&b, "n%d,n%d\n", first+v, first+(v+1)%nodes)
		}
		return b.Bytes()
	}
	for _, c := range []struct {
		name  string
		words int
		value func(v, w int) string
		flags []string
		as    bool
	}{
		{"a bag", 512, few, nil, true},
		{"with a word missing", 512, func(v, w int) string {
			if v == 3 && w == 5 {
				return ""
			}
			return few(v, w)
		}, nil, true},
		{"fewer words", 511, few, nil, false},
		{"a count", 512, func(v, w int) string { return strings.Replace(few(v, w), "1", fmt.Sprint(1+v/39), 1) }, nil, false},
		{"many ones", 512, func(v, w int) string { return fmt.Sprint((v + w) % 2) }, nil, false},
		{"all", 512, few, []string{"--normalize=all"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := clitest.Put(t, t.TempDir(), map[string][]byte{
				"e.csv": edges(0), "n.csv": table(0, c.words, c.value),
				"e2.csv": edges(nodes), "n2.csv": table(nodes, c.words, c.value),
			})
			dir := filepath.Join(t.TempDir(), "store")
			code, out, stderr := clitest.Run(t, append([]string{"ingest", filepath.Join(in, "e.csv"), dir, "--nodes", filepath.Join(in, "n.csv")}, c.flags...)...)
			if code != 0 {
				t.Fatal(stderr)
			}
			if strings.Contains(out, fmt.Sprintf("x is not standardised: its %d columns are 0 and 1", c.words)) != c.as {
				t.Errorf("ingest says %q", out)
			}
			if c.as {
				clitest.MustRun(t, "append", dir, filepath.Join(in, "e2.csv"), "--nodes", filepath.Join(in, "n2.csv"), "--missing", "zero")
			}
			s, err := store.Open(dir, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			x, err := s.Manifest().Column("x")
			if err == nil {
				err = s.Close()
			}
			if err != nil || (x.Standard == nil) != c.as {
				t.Fatalf("x is standardised: %v, expected %v, %v", x.Standard != nil, !c.as, err)
			}
			if !c.as {
				return
			}
			for id, row := range namedFloats(t, dir, "x") {
				v := 0
				if _, err := fmt.Sscanf(id, "n%d", &v); err != nil || len(row) != c.words {
					t.Fatalf("node %q of %d words, %v", id, len(row), err)
				}
				for w, got := range row {
					if want := c.value(v%nodes, w); got != 0 != (want == "1") || got != 0 && got != 1 {
						t.Fatalf("word %d of node %s is %v, expected %q", w, id, got, want)
					}
				}
			}
		})
	}
}
