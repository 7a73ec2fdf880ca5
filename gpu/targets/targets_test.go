package targets_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/ingest/ingesttest"
)

// shop writes a database of customers, whose buys have times, and tasks about them: "again" asks whether a customer buys within 30 days, which
// the habit of the customer tells, "sum" for how many buys there are, and "planted" for a coin that is tossed at the seed's time
// and written down a second later, in the customer's next buy alone. "mood" is a coin of which each customer has one that mostly
// falls on the same side; nothing but earlier targets tells it.
func shop(t *testing.T, customers int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	day := func(d float64) string {
		return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(d * 24 * float64(time.Hour))).Format(time.DateTime)
	}
	var people, buys bytes.Buffer
	people.WriteString("customer_id,city,joined\n")
	buys.WriteString("customer_id,item_id,price,coin,time\n")
	parts := map[string]map[string]*bytes.Buffer{}
	for task, target := range map[string]string{"again": "buys", "sum": "n", "planted": "coin", "habit": "class", "labels": "said", "mood": "good"} {
		kind := map[string]string{"sum": "regression", "habit": "multiclass_classification", "labels": "multilabel_classification"}[task]
		if kind == "" {
			kind = "binary_classification"
		}
		put(t, dir, "tasks/"+task+"/manifest.yaml", fmt.Sprintf("name: %s\ntask_type: %s\nentity_table: customer\nentity_col: customer_id\ntime_col: at\ntarget_col: %s\ntimedelta: 30 days\n", task, kind, target))
		parts[task] = map[string]*bytes.Buffer{}
		for _, part := range []string{"train", "val", "test"} {
			parts[task][part] = bytes.NewBufferString("at,customer_id," + target + "\n")
		}
	}
	r := keyed.New(7).Rand(0)
	for c := range customers {
		fmt.Fprintf(&people, "%d,%s,%s\n", c, []string{"Rome", "Oslo"}[r.Below(2)], "2019-01-01")
		every := []float64{9, 200}[r.Below(2)] // days between buys
		mood := r.Below(2)
		var when []float64
		for d := r.Float64() * every; d < 400; d += every * (.5 + r.Float64()) {
			when = append(when, d)
		}
		for k, seed := range []float64{100, 150, 200, 250, 300, 340} {
			part := []string{"train", "train", "train", "train", "val", "test"}[k]
			n, coin := 0, r.Below(2)
			for _, w := range when {
				if w > seed && w <= seed+30 {
					n++
				}
			}
			fmt.Fprintf(parts["again"][part], "%s,%d,%d\n", day(seed), c, min(n, 1))
			fmt.Fprintf(parts["sum"][part], "%s,%d,%d\n", day(seed), c, n)
			habit, labels := "none", "[]"
			switch {
			case n > 2:
				habit, labels = "many", "some|many"
			case n > 0:
				habit, labels = "some", "some"
			}
			fmt.Fprintf(parts["habit"][part], "%s,%d,%s\n", day(seed), c, habit)
			fmt.Fprintf(parts["labels"][part], "%s,%d,%s\n", day(seed), c, labels)
			fmt.Fprintf(parts["planted"][part], "%s,%d,%d\n", day(seed), c, coin)
			fmt.Fprintf(parts["mood"][part], "%s,%d,%d\n", day(seed), c, map[bool]uint64{true: mood, false: 1 - mood}[r.Below(10) > 0])
			fmt.Fprintf(&buys, "%d,%d,1,%d,%s\n", c, r.Below(5), 10*int(coin)-5, day(seed+1./86400))
		}
		for _, w := range when {
			fmt.Fprintf(&buys, "%d,%d,%.2f,0,%s\n", c, r.Below(5), 1+r.Float64(), day(w))
		}
	}
	put(t, dir, "customer.csv", people.String())
	put(t, dir, "buy.csv", buys.String())
	put(t, dir, "item.csv", "item_id,name\n0,tea\n1,cup\n2,pot\n3,jam\n4,bun\n")
	put(t, dir, "schema.yaml", "tables:\n  customer: {file: customer.csv, key: customer_id, time: joined}\n  item: {file: item.csv, key: item_id}\n"+
		"  buy: {file: buy.csv, time: time, references: [{columns: customer_id, table: customer}, {columns: item_id, table: item}]}\n")
	for task, tables := range parts {
		for part, b := range tables {
			put(t, dir, "tasks/"+task+"/"+part+".csv", b.String())
		}
	}
	return dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// open ingests a database.
func open(t *testing.T, dir string, o ingest.Options) *store.Store {
	t.Helper()
	st, err := store.Open(ingesttest.Store(t, dir, o), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func device(t *testing.T, threads int) gpu.Device {
	t.Helper()
	dev := host.New(host.Options{Threads: threads})
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// What a customer did tells what comes next; what was written down a second after the seed tells nothing.
func TestHistoryTellsAndTheFutureDoesNot(t *testing.T) {
	race.SkipArithmetic(t)
	dir := shop(t, 300)
	st, dev := open(t, dir, ingest.Options{}), device(t, 2)
	train := func(task string, epochs int) *targets.Summary {
		c, err := targets.Train(t.Context(), st, dev, targets.Config{Targets: filepath.Join(dir, "tasks", task), Epochs: epochs, Hidden: 16, Fanouts: []int{8, 2}, BatchSize: 128}, targets.Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		return &c.Summary
	}
	if s := train("again", 6); s.Test.AUC < s.TestLast.AUC+.02 || s.TestConstant.AUC != .5 || s.CheckedRows == 0 {
		t.Errorf("buys again: %+v", s)
	}
	if s := train("sum", 8); s.Test.MAE > .8*s.TestConstant.MAE {
		t.Errorf("number of buys: MAE %v, of the median %v", s.Test.MAE, s.TestConstant.MAE)
	}
	if s := train("habit", 8); s.Test.Accuracy < s.TestConstant.Accuracy+.2 || s.Valid.Accuracy < s.ValidLast.Accuracy+.05 || s.Classes != 3 {
		t.Errorf("classes of buyers: %+v", s)
	}
	if s := train("labels", 8); s.Test.AP < s.TestLast.AP+.05 || s.TestConstant.AP == 0 || s.Classes != 2 {
		t.Errorf("labels of buyers: %+v", s)
	}
	if s := train("mood", 8); s.Test.AUC < .8 {
		t.Errorf("what earlier targets tell: %+v", s)
	}
	// 300 rows: the deviation of the AUC of chance is .033.
	if s := train("planted", 6); math.Abs(s.Test.AUC-.5) > .1 || math.Abs(s.Valid.AUC-.5) > .12 {
		t.Errorf("a coin that is not known yet: test %+v, validation %+v", s.Test, s.Valid)
	}
}

// A run is the same for any threads, partitions and bound of memory, and when it is resumed.
func TestRunsAreEqualToTheBit(t *testing.T) {
	dir := shop(t, 60)
	runsAreEqual(t, dir, "again")
	runsAreEqual(t, dir, "labels")
	runsAreEqual(t, dir, "mood")
	runsAreEqual(t, dir, "sum") // averaged over steps
	runsAreEqual(t, tastes(t, 60), "items")
}

func runsAreEqual(t *testing.T, dir, task string) {
	t.Helper()
	cfg := targets.Config{Targets: filepath.Join(dir, "tasks", task), Epochs: 3, Hidden: 8, Fanouts: []int{4, 2}, BatchSize: 50, Seed: 3, Sampler: "uniform"}
	one := open(t, dir, ingest.Options{Partitions: 1})
	first, err := targets.Train(t.Context(), one, device(t, 1), cfg, targets.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	other := cfg
	other.Threads, other.MemoryBytes = 3, 256<<20
	second, err := targets.Train(t.Context(), open(t, dir, ingest.Options{Partitions: 5}), device(t, 3), other, targets.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Params, second.Params) || first.Summary.Test != second.Summary.Test {
		t.Errorf("%s: other threads, partitions and memory: %+v, expected %+v", task, second.Summary.Test, first.Summary.Test)
	}
	cfg.CheckpointFile, cfg.Epochs = filepath.Join(t.TempDir(), "run"), 2
	if _, err := targets.Train(t.Context(), one, device(t, 2), cfg, targets.Hooks{}); err != nil {
		t.Fatal(err)
	}
	cfg.Epochs, cfg.Resume = 3, true
	third, err := targets.Train(t.Context(), one, device(t, 2), cfg, targets.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Params, third.Params) || !third.Summary.Resumed {
		t.Errorf("%s: the resumed run is another", task)
	}
}

// A saved model answers as it did when it was tested.
func TestPredictionsAreTheTests(t *testing.T) {
	dir := shop(t, 60)
	st, dev := open(t, dir, ingest.Options{}), device(t, 2)
	c, err := targets.Train(t.Context(), st, dev, targets.Config{Targets: filepath.Join(dir, "tasks", "sum"), Epochs: 2, Hidden: 8, BatchSize: 64}, targets.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gsm")
	if err := c.SaveFile(path); err != nil || !targets.IsFile(path) {
		t.Fatal(err)
	}
	again, err := targets.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	task, err := database.OpenTask(nil, filepath.Join(dir, "tasks", "sum"))
	if err != nil {
		t.Fatal(err)
	}
	test, err := task.Read(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]store.NodeID, len(test.Keys))
	if err := st.LookupStrings(t.Context(), test.Keys, ids); err != nil {
		t.Fatal(err)
	}
	var questions []targets.Question
	for i, id := range ids {
		questions = append(questions, targets.Question{Node: id, Moment: test.Times[i]})
	}
	answers, err := targets.Predict(t.Context(), st, dev, again, again.Config, questions)
	if err != nil {
		t.Fatal(err)
	}
	mae := 0.
	for i, a := range answers {
		mae += math.Abs(float64(a) - test.Values[i])
	}
	if mae /= float64(len(answers)); mae != c.Summary.Test.MAE {
		t.Errorf("MAE %v of the saved model's answers, %v when it was tested", mae, c.Summary.Test.MAE)
	}
}

// What does not go together is refused with what was expected.
func TestRefusals(t *testing.T) {
	dir := shop(t, 10)
	st, dev := open(t, dir, ingest.Options{}), device(t, 1)
	with := func(name, text string) string {
		task := t.TempDir()
		for _, file := range []string{"manifest.yaml", "train.csv", "val.csv", "test.csv"} {
			b, err := os.ReadFile(filepath.Join(dir, "tasks", "again", file))
			if err != nil {
				t.Fatal(err)
			}
			put(t, task, file, string(b))
		}
		put(t, task, name, text)
		return task
	}
	for _, test := range []struct {
		cfg  targets.Config
		want string
	}{
		{targets.Config{}, "--targets names its folder"},
		{targets.Config{Targets: with("val.csv", "at,customer_id,buys\n2020-01-01,77,1\n")}, `no row "77" of table "customer"`},
		{targets.Config{Targets: with("val.csv", "at,customer_id,buys\n2020-01-01,,1\n")}, "a row without an entity"},
		{targets.Config{Targets: with("val.csv", "at,customer_id,buys\n2020-01-01,1,2\n")}, `target 2 of "buys", expected 0 or 1`},
		{targets.Config{Targets: with("val.csv", "at,customer_id,buys\nsoon,1,1\n")}, "is no time"},
		{targets.Config{Targets: with("val.csv", "at,customer_id\n2020-01-01,1\n")}, `expected "customer_id", "at" and "buys"`},
		{targets.Config{Targets: with("val.csv", "at,customer_id,buys\n2020-01-01,1,\n")}, "0 validate"},
		{targets.Config{Targets: with("manifest.yaml", "task_type: ranking\n")}, `task_type "ranking"`},
		{targets.Config{Targets: with("manifest.yaml", "task_type: regression\nentity_table: people\nentity_col: customer_id\ntime_col: at\ntarget_col: buys\n")}, `rows of table "people", and the store's tables are`},
		{targets.Config{Targets: with("manifest.yaml", "task_type: regression\nentity_table: customer\nentity_col: customer_id\ntime_col: at\ntarget_col: buys\ntimedelta: soon\n")}, `timedelta "soon"`},
		{targets.Config{Targets: with("manifest.yaml", "task_type: regression\nentity_table: customer\nentity_col: customer_id\ntime_col: at\ntarget_col: buys\n"), Past: "yes"}, "add timedelta"},
		{targets.Config{Targets: filepath.Join(dir, "tasks", "again"), KnownUntil: "now"}, "known_until"},
		{targets.Config{Targets: filepath.Join(dir, "tasks", "again"), Running: options.Running{MemoryBytes: 1 << 20}}, "budget"},
	} {
		_, err := targets.Train(t.Context(), st, dev, test.cfg, targets.Hooks{})
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "-", "_"), strings.ReplaceAll(test.want, "-", "_")) || test.cfg.MemoryBytes > 0 && !errors.Is(err, store.ErrBudget) {
			t.Errorf("error %v, expected one with %q", err, test.want)
		}
	}
	if !slices.Contains(targets.Orders(), "latest") {
		t.Error("no order latest")
	}
}

// TestPlan: the smallest budget that a plan names is one that training takes and keeps, and a smaller one is refused by it.
func TestPlan(t *testing.T) {
	dir := shop(t, 60)
	st, dev := open(t, dir, ingest.Options{}), device(t, 2)
	c := targets.Config{Targets: filepath.Join(dir, "tasks", "again"), Epochs: 1}
	p, err := targets.Plan(t.Context(), st, dev.Info(), c)
	if err != nil || p.Table != "customer" || p.TrainRows != 240 || p.ValidRows != 60 || p.TestRows != 60 || p.Batches != 1 || p.LeastBytes <= 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	for bytes, fits := range map[int64]bool{p.LeastBytes: true, p.LeastBytes - 1<<20: false} {
		c.MemoryBytes = bytes
		q, planned := targets.Plan(t.Context(), st, dev.Info(), c)
		_, trained := targets.Train(t.Context(), st, dev, c, targets.Hooks{})
		if q.LeastBytes != p.LeastBytes || (planned == nil) != fits || (trained == nil) != fits || !fits && (!errors.Is(planned, store.ErrBudget) || !errors.Is(trained, store.ErrBudget)) {
			t.Errorf("of %d bytes, %d are the least: plan says %v, train %v", bytes, q.LeastBytes, planned, trained)
		}
	}
}
