package training_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainTypes: what an item is follows from its user alone, and users have no features: models of relations learn a vector for
// each. eval and a run out of core read them as training in memory does.
func TestTrainTypes(t *testing.T) {
	const users, items, classes = 30, 900, 4
	r := rand.New(rand.NewPCG(1, 2))
	var src, dst, labels []int64
	var splits [3][]int64
	class := make([]int64, users)
	for u := range class {
		class[u] = r.Int64N(classes)
	}
	for i := range int64(items) {
		u := r.Int64N(users)
		src, dst, labels = append(src, u), append(dst, i), append(labels, class[u])
		splits[i%3] = append(splits[i%3], i)
	}
	feat := make([]float32, 2*items)
	for i := range feat {
		feat[i] = r.Float32()
	}
	ends := func(src, dst []int64) []byte {
		return clitest.NpyFile("<i8", fmt.Sprintf("2, %d", len(src)), blocks.Bytes(append(slices.Clone(src), dst...)))
	}
	dir := clitest.Put(t, t.TempDir(), map[string][]byte{
		"g/edges/user__has__item/edge_index.npy": ends(src, dst), "g/edges/item__is__item/edge_index.npy": ends([]int64{0}, []int64{1}),
		"g/nodes/item/feat.npy": clitest.NpyFile("<f4", fmt.Sprintf("%d, 2", items), blocks.Bytes(feat)), "g/nodes/item/label.npy": clitest.NpyInts(labels),
		"g/split/train.npy": clitest.NpyInts(splits[0]), "g/split/valid.npy": clitest.NpyInts(splits[1]), "g/split/test.npy": clitest.NpyInts(splits[2]),
	})
	store := filepath.Join(dir, "s.gstore")
	accuracy := func(args ...string) (accuracy float64) {
		code, out, stderr := clitest.Run(t, append(args, "--json")...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var s struct {
			Test float64 `json:"test_accuracy"`
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &s); code != cli.ExitOK || err != nil {
			t.Fatalf("%q: exit code %d, %v: %s", args, code, err, stderr)
		}
		return s.Test
	}
	if code, _, stderr := clitest.Run(t, "ingest", filepath.Join(dir, "g"), store, "--partitions", "4", "--quiet"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	inMemory := map[string]float64{}
	for _, model := range []string{"rsage", "rgcn", "rgat", "hgt"} {
		args := []string{"train", store, "--model", model, "--hidden", "16", "--layers", "1", "--epochs", "30", "--lr", ".05"}
		memory := accuracy(args...)
		inMemory[model] = memory
		if evaluated := accuracy("eval", store); memory < .95 || evaluated != memory {
			t.Errorf("%s: test accuracy %v, by eval %v, expected the same above .95", model, memory, evaluated)
		}
		if parts := accuracy(append(args, "--plan", "hanoi", "--buffer", "3")...); parts < .9 {
			t.Errorf("%s out of core: test accuracy %v, expected above .9", model, parts)
		}
	}
	// The same graph in the layout of ogbn-mag is the same store, and learns the same.
	ogb := filepath.Join(dir, "ogb.gstore")
	if code, _, stderr := clitest.Run(t, "ingest", ogbTyped(t, users, items, src, dst, labels, feat, splits), ogb, "--partitions", "4", "--quiet"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	// Vectors in a table learn as well, and leave the store with their model. A run that replaces the table is the one whose model is found.
	args := []string{"train", ogb, "--model", "rsage", "--hidden", "16", "--layers", "1", "--lr", ".05", "--vectors", "table"}
	best := accuracy(append(args, "--epochs", "30")...)
	if code, _, stderr := clitest.Run(t, append(args, "--epochs", "1")...); code == cli.ExitOK || !strings.Contains(stderr, "--overwrite") {
		t.Errorf("a second run with the same table: exit code %d, %s", code, stderr)
	}
	out := filepath.Join(dir, "model")
	if code, _, stderr := clitest.Run(t, "export", ogb, out, "--what", "model"); code != cli.ExitOK {
		t.Fatal(stderr)
	}
	if read, exported := accuracy("eval", ogb), accuracy("eval", ogb, "--checkpoint", out); best < .9 || read != best || exported != best {
		t.Errorf("vectors in a table: test accuracy %v, read again %v, of the exported model %v, expected the same above .9", best, read, exported)
	}
	last := accuracy(append(args, "--epochs", "1", "--overwrite")...)
	if found := accuracy("eval", ogb); found != last || last == best {
		t.Errorf("eval takes a run of test accuracy %v, expected the last one's %v, whose table it is", found, last)
	}
	if code, _, stderr := clitest.Run(t, "eval", ogb, "--checkpoint", "1"); code == cli.ExitOK || !strings.Contains(stderr, "replaced") {
		t.Errorf("a run whose table was replaced: exit code %d, %s", code, stderr)
	}
	if got := accuracy("train", ogb, "--model", "rsage", "--hidden", "16", "--layers", "1", "--epochs", "30", "--lr", ".05"); got != inMemory["rsage"] {
		t.Errorf("test accuracy %v of the graph in OGB's layout, expected %v", got, inMemory["rsage"])
	}
	// One layer without vectors sees features that tell nothing.
	if chance := accuracy("train", store, "--model", "rsage", "--layers", "1", "--epochs", "5", "--features", "item.feat"); chance > .6 {
		t.Errorf("test accuracy %v of features alone: the test sees too little", chance)
	}
	if code, _, stderr := clitest.Run(t, "train", store, "--model", "sage", "--features", "user.node"); code == cli.ExitOK || !strings.Contains(stderr, "user.node") {
		t.Errorf("categories as features of sage: exit code %d, %s", code, stderr)
	}
}

// ogbTyped writes users, who have items, and items, the first of which is the second, in OGB's layout.
func ogbTyped(t *testing.T, users, items int, src, dst, labels []int64, feat []float32, splits [3][]int64) string {
	column := func(x []int64) []byte {
		var b strings.Builder
		for _, v := range x {
			fmt.Fprintln(&b, v)
		}
		return []byte(b.String())
	}
	var ends, rows strings.Builder
	for i := range src {
		fmt.Fprintf(&ends, "%d,%d\n", src[i], dst[i])
		fmt.Fprintf(&rows, "%v,%v\n", feat[2*i], feat[2*i+1])
	}
	return clitest.Put(t, t.TempDir(), map[string][]byte{
		"raw/num-node-dict.csv.gz":                             fmt.Appendf(nil, "user,item\n%d,%d\n", users, items),
		"raw/triplet-type-list.csv.gz":                         []byte("user,has,item\nitem,is,item\n"),
		"raw/relations/user___has___item/edge.csv.gz":          []byte(ends.String()),
		"raw/relations/user___has___item/num-edge-list.csv.gz": column([]int64{int64(len(src))}),
		"raw/relations/item___is___item/edge.csv.gz":           []byte("0,1\n"),
		"raw/relations/item___is___item/num-edge-list.csv.gz":  column([]int64{1}),
		"raw/node-feat/item/node-feat.csv.gz":                  []byte(rows.String()),
		"raw/node-label/item/node-label.csv.gz":                column(labels),
		"split/random/item/train.csv.gz":                       column(splits[0]), "split/random/item/valid.csv.gz": column(splits[1]), "split/random/item/test.csv.gz": column(splits[2]),
	})
}

// TestTypesWithoutFeatures: a typed graph of which no table has a feature is trained by learned vectors alone, in memory, out of core and in
// a table, and its model is evaluated, exported and taken up again.
func TestTypesWithoutFeatures(t *testing.T) {
	t.Chdir(t.TempDir())
	users, items, edges := "id,label\n", "id\n", "src,dst\n"
	for i := range 120 {
		users += fmt.Sprintf("%d,%d\n", i, i%3)
		edges += fmt.Sprintf("%d,%d\n%d,%d\n", i, i%3*5+i%5, i, i%3*5+i/7%5)
	}
	for i := range 15 {
		items += fmt.Sprintf("%d\n", i)
	}
	clitest.Put(t, "g/nodes", map[string][]byte{"user.csv": []byte(users), "item.csv": []byte(items)})
	clitest.Put(t, "g/edges", map[string][]byte{"user-buys-item.csv": []byte(edges)})
	clitest.MustRun(t, "ingest", "g", "s", "--partitions", "4")
	for _, args := range [][]string{nil, {"--plan", "hanoi", "--buffer", "2"}, {"--vectors", "table", "--overwrite"}, {"--model", "hgt"}} {
		events := clitest.Events(t, append([]string{"train", "s", "--epochs", "30", "--hidden", "16", "--seed", "1"}, args...)...)
		sum := events[len(events)-1]
		if sum["test_accuracy"].(float64) < .8 {
			t.Errorf("%q: accuracy %v", args, sum["test_accuracy"])
		}
		clitest.MustRun(t, "export", "s", "m", "--what", "model")
		_, own, _ := clitest.Run(t, "eval", "s", "--splits", "test", "--checkpoint", sum["model_file"].(string))
		run := strings.TrimSuffix(filepath.Base(sum["model_file"].(string)), ".gsm")
		clitest.MustRun(t, "export", "s", "m"+run, "--what", "model", "--checkpoint", run)
		_, exported, errs := clitest.Run(t, "eval", "s", "--splits", "test", "--checkpoint", "m"+run)
		if a, b := strings.Fields(own), strings.Fields(exported); len(b) < 19 || a[17] != b[17] || a[18] != b[18] {
			t.Errorf("%q: the model says %s, exported %s%s", args, own, exported, errs)
		}
		if err := os.RemoveAll("m"); err != nil {
			t.Fatal(err)
		}
	}
}
