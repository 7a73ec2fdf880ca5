package training_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
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
	for _, model := range []string{"rsage", "rgcn"} {
		args := []string{"train", store, "--model", model, "--hidden", "16", "--layers", "1", "--epochs", "30", "--lr", ".05", "--dropout", ".1"}
		memory := accuracy(args...)
		if evaluated := accuracy("eval", store); memory < .95 || evaluated != memory {
			t.Errorf("%s: test accuracy %v, by eval %v, expected the same above .95", model, memory, evaluated)
		}
		if parts := accuracy(append(args, "--plan", "hanoi", "--buffer", "3")...); parts < .9 {
			t.Errorf("%s out of core: test accuracy %v, expected above .9", model, parts)
		}
	}
	// One layer without vectors sees features that tell nothing.
	if chance := accuracy("train", store, "--model", "rsage", "--layers", "1", "--epochs", "5", "--features", "item.feat"); chance > .6 {
		t.Errorf("test accuracy %v of features alone: the test sees too little", chance)
	}
	if code, _, stderr := clitest.Run(t, "train", store, "--model", "sage", "--features", "user.node"); code == cli.ExitOK || !strings.Contains(stderr, "user.node") {
		t.Errorf("categories as features of sage: exit code %d, %s", code, stderr)
	}
}
