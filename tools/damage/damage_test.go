package damage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/storetest"
	"github.com/gstore/gstore/tools/cli"
)

// Trials of each folder: a sample, or with GSTORE_FULL_TESTS=1 all. GSTORE_DAMAGE_SEED takes others.
var trials = []struct {
	folder       string
	sample, full int
}{{"data", 60, 730}, {"meta", 60, 520}, {"runs", 20, 270}, {".", 1, 1}}

// gstore runs a command and returns its exit code and what it wrote.
func gstore(t testing.TB, args ...string) (code int, out string) {
	t.Helper()
	var b bytes.Buffer
	code = cli.Run(context.Background(), args, strings.NewReader(""), &b, &b)
	return code, b.String()
}

func must(t testing.TB, args ...string) {
	t.Helper()
	if code, out := gstore(t, args...); code != 0 {
		t.Fatalf("gstore %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
}

// nodeStore has features, labels, a split, dense ids, two versions, and a trained model.
func nodeStore(t testing.TB) string {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "node.gstore")
	must(t, "generate", "sbm", in, "--nodes", "600", "--edges", "3000", "--classes", "4", "--features", "8", "--communities", "4")
	must(t, "ingest", in, out, "--partitions", "3", "--mem", "1GiB")
	must(t, "precompute", out)
	must(t, "train", out, "--epochs", "2", "--hidden", "8", "--batch-size", "100", "--checkpoint-every", "1")
	return out
}

// linkStore has names, relations, lists of edges to validate with, and trained embeddings with their checkpoints.
func linkStore(t testing.TB) string {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "link.gstore")
	if err := os.Mkdir(in, 0o777); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	for name, n := range map[string]int{"train": 900, "valid": 50, "test": 50} {
		b := []byte{}
		for range n {
			b = fmt.Appendf(b, "name-%d\trelation-%d\tname-%d\n", r.IntN(150), r.IntN(3), r.IntN(150))
		}
		if err := os.WriteFile(filepath.Join(in, name+".tsv"), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "ingest", in, out, "--partitions", "3", "--mem", "1GiB")
	must(t, "train", out, "--epochs", "2", "--dim", "8", "--batch-size", "200")
	return out
}

// typedStore has nodes of three types, each with columns of its own and one without features, and a trained model with its vectors.
func typedStore(t testing.TB) string {
	graph, _ := storetest.Typed(t)
	out := filepath.Join(t.TempDir(), "typed.gstore")
	must(t, "ingest", graph, out, "--partitions", "3", "--mem", "1GiB")
	must(t, "train", out, "--model", "rsage", "--epochs", "2", "--hidden", "8", "--batch-size", "50", "--checkpoint-every", "1")
	return out
}

// contents is a digest of all that can be read from a store: graph, columns, ids, embeddings, history.
func contents(t testing.TB, dir string) string {
	t.Helper()
	h := sha256.New()
	out := filepath.Join(t.TempDir(), "out")
	code, text := gstore(t, "export", dir, out, "--format", "tsv", "--what", "all")
	fmt.Fprintln(h, code)
	if code != 0 {
		return "export: " + text
	}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(out, path)
		fmt.Fprintf(h, "%s %x\n", rel, sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	code, text = gstore(t, "inspect", dir, "--json")
	fmt.Fprintln(h, code, text)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// harm damages the file and says how.
func harm(r *rand.Rand, b []byte) (_ []byte, how string) {
	switch n := r.IntN(20); {
	case n < 2:
		return nil, "removed"
	case n < 6 && len(b) > 0:
		to := r.IntN(len(b))
		if r.IntN(4) == 0 {
			to = len(b) / 4096 * 4096 * r.IntN(2)
		}
		return append([]byte{}, b[:to]...), fmt.Sprintf("cut to %d of %d bytes", to, len(b))
	case n < 8 && len(b) > 0:
		from := r.IntN(len(b))
		to := min(len(b), from+1+r.IntN(5000))
		c := bytes.Clone(b)
		clear(c[from:to])
		return c, fmt.Sprintf("bytes %d to %d zeroed", from, to)
	case n < 9:
		return append(bytes.Clone(b), make([]byte, 1+r.IntN(5000))...), "zeros appended"
	case len(b) > 0:
		bit := r.IntN(8 * len(b))
		c := bytes.Clone(b)
		c[bit/8] ^= 1 << (bit % 8)
		return c, fmt.Sprintf("bit %d of byte %d flipped", bit%8, bit/8)
	}
	return nil, "removed"
}

// Every damage is found, with exit 3 and the name of what is damaged; or the store's contents are what
// they were, to the byte.
func TestDamageIsFound(t *testing.T) {
	seed := uint64(15)
	if s := os.Getenv("GSTORE_DAMAGE_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	}
	full := os.Getenv("GSTORE_FULL_TESTS") != ""
	for _, kind := range []struct {
		name string
		make func(testing.TB) string
	}{{"nodes", nodeStore}, {"links", linkStore}, {"types", typedStore}} {
		t.Run(kind.name, func(t *testing.T) {
			dir := kind.make(t)
			if code, out := gstore(t, "verify", dir); code != 0 {
				t.Fatalf("verify of a whole store: exit %d\n%s", code, out)
			}
			want := contents(t, dir)
			r := rand.New(rand.NewPCG(seed, 15))
			for _, f := range trials {
				n := (f.sample + 1) / 2 // of each store
				if full {
					n = (f.full + 1) / 2
				}
				found, harmless := 0, 0
				for k := range n {
					how, ok := trial(t, r, dir, f.folder, want)
					switch {
					case how == "":
						continue
					case ok:
						found++
					default:
						harmless++
					}
					if t.Failed() {
						t.Fatalf("seed %d, trial %d of %s: %s", seed, k, f.folder, how)
					}
				}
				t.Logf("%s: %d damages found, %d without effect, seed %d", f.folder, found, harmless, seed)
			}
			if got := contents(t, dir); got != want {
				t.Errorf("the store is not what it was: %s", got)
			}
		})
	}
}

// trial damages one file of the folder, verifies, and mends the file. found says whether verify named it.
func trial(t *testing.T, r *rand.Rand, dir, folder, want string) (how string, found bool) {
	entries, err := os.ReadDir(filepath.Join(dir, folder))
	if os.IsNotExist(err) {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.IsDir() || strings.HasSuffix(e.Name(), ".lock") })
	if len(entries) == 0 {
		return "", false
	}
	name := entries[r.IntN(len(entries))].Name()
	path := filepath.Join(dir, folder, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, how := harm(r, b)
	how = folder + "/" + name + ": " + how
	if c == nil && folder == "runs" {
		return "", false // a model that is removed is an owner's choice, and eval names what is missing
	}
	if bytes.Equal(c, b) && c != nil {
		return "", false
	}
	if c == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, c, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.WriteFile(path, b, 0o666); err != nil {
			t.Fatal(err)
		}
	}()
	code, out := gstore(t, "verify", dir)
	switch {
	case code == cli.ExitCorrupt:
		if !strings.Contains(out, name) && !strings.Contains(out, filepath.Join(dir, folder)) {
			t.Errorf("%s: found, but not named:\n%s", how, out)
		}
		return how, true
	case code != 0:
		t.Errorf("%s: exit %d, expected %d\n%s", how, code, cli.ExitCorrupt, out)
	default:
		if got := contents(t, dir); got != want {
			t.Errorf("%s: verify finds nothing, and the store reads differently: %s", how, got)
		}
	}
	return how, false
}
