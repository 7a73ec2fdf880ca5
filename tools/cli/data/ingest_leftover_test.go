package data_test

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestIngestLeavesNothing: input that turns out to be bad once the store is begun is told as the input's fault, with the
// file, and nothing is left of the store; nor is a name that the format cannot keep cut or kept.
func TestIngestLeavesNothing(t *testing.T) {
	features := make([]float32, 4096)
	for i := range features {
		features[i] = float32(i)
	}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for _, m := range []struct {
		name string
		data []byte
	}{{"edge_index.npy", clitest.NpyFile("<i8", "2, 3", blocks.Bytes([]int64{0, 1, 2, 1, 2, 3}))}, {"node_feat.npy", clitest.NpyFile("<f4", "1024, 4", blocks.Bytes(features))}} {
		w, err := z.CreateHeader(&zip.FileHeader{Name: m.name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(m.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(archive.Bytes())
	damaged[bytes.Index(damaged, blocks.Bytes(features[2000:2004]))+1] ^= 1 // one bit of one feature
	long := strings.Repeat("a", 300)
	for _, c := range []struct {
		name, input string
		files       map[string][]byte
		more        []string
		want        []string
	}{
		{"a damaged member", "g.npz", map[string][]byte{"g.npz": damaged}, nil, []string{"g.npz", "checksum"}},
		{"a name of 300 bytes", "edges.tsv", map[string][]byte{"edges.tsv": []byte("0\t1\t.5\n1\t2\t.5\n")},
			[]string{"--columns", "src,dst," + long + ":float32"}, []string{"name has 300 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, work := clitest.Put(t, t.TempDir(), c.files), t.TempDir()
			code, _, said := clitest.Run(t, append([]string{"ingest", filepath.Join(in, c.input), filepath.Join(work, "store")}, c.more...)...)
			if code != cli.ExitFailed {
				t.Errorf("exit code %d, expected %d", code, cli.ExitFailed)
			}
			for _, w := range c.want {
				if !strings.Contains(said, w) {
					t.Errorf("%q lacks %q", said, w)
				}
			}
			if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
				t.Errorf("%v is left (%v)", left, err)
			}
		})
	}
	in := clitest.Put(t, t.TempDir(), map[string][]byte{"g.npz": archive.Bytes()})
	clitest.MustRun(t, "ingest", filepath.Join(in, "g.npz"), filepath.Join(t.TempDir(), "store"), "--quiet") // the archive itself is good
}
