package data_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// normalGraph is a numpy folder of n nodes of three classes whose features x [n × 4] are what value makes of numbers
// about 0 to 3.
func normalGraph(t *testing.T, n int, value func(d int, x float64) float64) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, 8))
	var src, dst, labels []int64
	var sets [4][]int64
	var x []float32
	for v := range n {
		labels, sets[v%4] = append(labels, int64(v%3)), append(sets[v%4], int64(v))
		src, dst = append(src, rng.Int64N(int64(n)), int64(v)), append(dst, int64(v), rng.Int64N(int64(n)))
		for d := range 4 {
			x = append(x, float32(value(d, float64(rng.Float32())+float64((v+d)%3))))
		}
	}
	return clitest.Put(t, t.TempDir(), map[string][]byte{
		"edge_index.npy": clitest.NpyFile("<i8", fmt.Sprintf("2, %d", len(src)), blocks.Bytes(append(src, dst...))),
		"x.npy":          clitest.NpyFile("<f4", fmt.Sprintf("%d, 4", n), blocks.Bytes(x)),
		"y.npy":          clitest.NpyInts(labels), "split/train.npy": clitest.NpyInts(slices.Concat(sets[0], sets[1])), "split/valid.npy": clitest.NpyInts(sets[2]), "split/test.npy": clitest.NpyInts(sets[3]),
	})
}

// floatsByExternal is columnByExternal of float32.
func floatsByExternal(t *testing.T, dir, name string) map[uint64][]float32 {
	t.Helper()
	rows := map[uint64][]float32{}
	for v, row := range columnByExternal(t, dir, name) {
		for i := 0; i < len(row); i += 4 {
			rows[v] = append(rows[v], math.Float32frombits(binary.LittleEndian.Uint32([]byte(row[i:]))))
		}
	}
	return rows
}

// standardOf is what zeros of a standardised column become.
func standardOf(t *testing.T, dir, name string) (zero []float64) {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c, err := s.Manifest().Column(name)
	if err != nil || c.Standard == nil {
		t.Fatalf("%s is not standardised (%v)", name, err)
	}
	for d, m := range c.Standard.Mean {
		zero = append(zero, -m/c.Standard.Deviation[d])
	}
	return zero
}

// TestNormalize: gstore ingest --normalize brings features to mean 0 and deviation 1, whatever their scale: training sees the
// same of one whose elements are scaled and moved. Exports give the values back and come back as the same store; a
// partition, an append and a hop know of it.
func TestNormalize(t *testing.T) {
	dir := t.TempDir()
	plain, scaled, grown := filepath.Join(dir, "plain"), filepath.Join(dir, "scaled"), filepath.Join(dir, "grown")
	scale := func(d int, x float64) float64 { return x*[]float64{1, 1000, .001, 50}[d] + []float64{0, 3e4, 0, -7}[d] }
	in := normalGraph(t, 600, scale)
	clitest.MustRun(t, "ingest", normalGraph(t, 600, func(_ int, x float64) float64 { return x }), plain, "--normalize", "--partitions", "4")
	_, out, _ := clitest.Run(t, "ingest", in, scaled, "--normalize", "--partitions", "4")
	if !strings.Contains(out, "x is standardised") {
		t.Errorf("ingest says nothing of it: %s", out)
	}
	rows := floatsByExternal(t, scaled, "x")
	for d := range 4 {
		sum, squares := 0., 0.
		for _, row := range rows {
			sum, squares = sum+float64(row[d]), squares+float64(row[d])*float64(row[d])
		}
		if mean, v := sum/600, squares/600; math.Abs(mean) > 1e-4 || math.Abs(v-1) > 1e-4 {
			t.Errorf("element %d has mean %v and variance %v", d, mean, v)
		}
	}
	losses := func(store string, args ...string) []float64 {
		return clitest.Losses(clitest.Events(t, append([]string{"train", store, "--epochs", "2", "--hidden", "8", "--fanouts", "3,3"}, args...)...))
	}
	want := losses(plain)
	for e, loss := range losses(scaled) {
		if math.Abs(loss-want[e]) > 1e-3*want[e] {
			t.Errorf("epoch %d: loss %v, %v before scales and offsets", e+1, loss, want[e])
		}
	}

	for _, form := range []string{"numpy", "tsv", "parquet"} {
		exported, again := filepath.Join(dir, "x-"+form), filepath.Join(dir, "again-"+form)
		clitest.MustRun(t, "export", scaled, exported, "--format", form)
		clitest.MustRun(t, "ingest", exported, again)
		for v, row := range floatsByExternal(t, again, "x") {
			for d := range row {
				if math.Abs(float64(row[d]-rows[v][d])) > 1e-4 {
					t.Fatalf("%s: node %d, element %d came back as %v, was %v", form, v, d, row[d], rows[v][d])
				}
			}
		}
	}
	if code, _, errs := clitest.Run(t, "append", plain, in, "--normalize"); code != 2 || !strings.Contains(errs, "--normalize goes with --features") {
		t.Errorf("append INPUT --normalize: exit %d, %s", code, errs)
	}

	// New rows are brought to the means and deviations of the first.
	clitest.MustRun(t, "partition", scaled, "--partitions", "3")
	clitest.MustRun(t, "ingest", in, grown, "--normalize", "--feature-dtype", "float32", "--partitions", "2")
	more := clitest.Put(t, t.TempDir(), map[string][]byte{
		"edge_index.npy": clitest.NpyFile("<i8", "2, 1", blocks.Bytes([]int64{600, 0})),
		"x.npy":          clitest.NpyFile("<f4", "1, 4", blocks.Bytes([]float32{0, 3e4, 0, -7})),
	})
	zero := standardOf(t, plain, "x") // what 0, before scales and offsets, becomes
	for _, store := range []string{scaled, grown} {
		clitest.MustRun(t, "append", store, more)
		for d, x := range floatsByExternal(t, store, "x")[600] {
			if math.Abs(float64(x)-zero[d]) > 1e-3 {
				t.Errorf("%s: element %d of the new node is %v, expected %v", store, d, x, zero[d])
			}
		}
		clitest.MustRun(t, "verify", store)
	}
	rank := clitest.Put(t, t.TempDir(), map[string][]byte{"rank.npy": clitest.NpyFile("<f8", "601", blocks.Bytes(slices.Repeat([]float64{5, 7, 9}, 201)[:601]))})
	clitest.MustRun(t, "append", grown, "--features", filepath.Join(rank, "rank.npy"), "--name", "rank", "--normalize")
	if x := floatsByExternal(t, grown, "rank")[1][0]; math.Abs(float64(x)) > .01 {
		t.Errorf("an appended value at the mean is %v, expected 0", x)
	}
	if _, out, _ := clitest.Run(t, "inspect", grown); strings.Count(out, "feature, standardised") != 2 {
		t.Errorf("inspect does not say which columns are standardised: %s", out)
	}
	// Types that could not hold the values hold what they become.
	for _, dtype := range []string{"int8", "float16"} {
		clitest.MustRun(t, "ingest", in, filepath.Join(dir, dtype), "--normalize", "--feature-dtype", dtype)
		if got := losses(filepath.Join(dir, dtype)); math.Abs(got[1]-want[1]) > .05*want[1] {
			t.Errorf("%s: loss %v, with float32 %v", dtype, got[1], want[1])
		}
	}
}

// tableGraph is a folder of tables: 40 users with an age, a birthday, a flag and a vector as a list of columns, two of them without an age.
func tableGraph(t *testing.T) (dir string, ages []float64) {
	t.Helper()
	users, edges := "user_id,age,member,height,born,v.0,v.1,label\n", "user_id,item_id\n"
	for v := range 40 {
		age := fmt.Sprint(20 + v*v%50)
		if v%20 == 7 {
			age = ""
			ages = append(ages, math.NaN())
		} else {
			ages = append(ages, float64(20+v*v%50))
		}
		users += fmt.Sprintf("u%d,%s,%t,1.8,19%02d-05-01,%d,300,%c\n", v, age, v%3 == 0, 50+v, v, 'a'+v%2)
		edges += fmt.Sprintf("u%d,i%d\n", v, v%4)
	}
	return clitest.Put(t, t.TempDir(), map[string][]byte{
		"nodes/user.csv": []byte(users), "nodes/item.csv": []byte("item_id,price\ni0,1\ni1,2\ni2,3\ni3,1000\n"), "edges/user-bought-item.csv": []byte(edges),
	}), ages
}

// TestTablesAreStandardised: an ingest without flags brings columns of numbers and dates of tables to mean 0 and deviation 1, by type, and
// leaves vectors as they are; a missing number is the mean, and counted. What is appended is brought to the same. --normalize=none takes
// numbers as they are, and refuses missing ones.
func TestTablesAreStandardised(t *testing.T) {
	in, ages := tableGraph(t)
	dir := filepath.Join(t.TempDir(), "s")
	_, out, _ := clitest.Run(t, "ingest", in, dir, "--use", "born")
	for _, want := range []string{"user.x is standardised: the means of its 3 columns", "user.born is standardised", "item.x is standardised", "--normalize=none", "2 values of user.x were missing: --missing mean",
		"values of user.v reach 300"} {
		if !strings.Contains(out, want) {
			t.Errorf("ingest does not say %q: %s", want, out)
		}
	}
	if strings.Contains(out, "user.v is standardised") {
		t.Errorf("a vector is standardised: %s", out)
	}
	mean, count := 0., 0.
	for _, x := range ages {
		if !math.IsNaN(x) {
			mean, count = mean+x, count+1
		}
	}
	mean /= count
	deviation := 0.
	for _, x := range ages {
		if !math.IsNaN(x) {
			deviation += (x - mean) * (x - mean) / count
		}
	}
	deviation = math.Sqrt(deviation)
	rows := namedFloats(t, dir, "user.x")
	for v, x := range ages {
		want := (x - mean) / deviation
		if math.IsNaN(x) {
			want = 0
		}
		if row := rows[fmt.Sprintf("user:u%d", v)]; math.Abs(float64(row[0])-want) > 1e-5 || row[2] != 0 {
			t.Errorf("user %d of age %v is %v, expected %v and, of the constant height, 0", v, x, row, want)
		}
	}
	for v := range 40 {
		if row := namedFloats(t, dir, "user.v")[fmt.Sprintf("user:u%d", v)]; row[0] != float32(v) || row[1] != 300 {
			t.Fatalf("the vector of user %d is %v, expected %d and 300", v, row, v)
		}
	}
	if row := namedFloats(t, dir, "user.x")["item:i0"]; !slices.Equal(row, []float32{0, 0, 0}) {
		t.Errorf("an item has the user's numbers %v, expected the mean, 0", row)
	}

	more := clitest.Put(t, t.TempDir(), map[string][]byte{"nodes/user.csv": []byte("user_id,age,member,height,born,v.0,v.1,label\nnew,1000,True,1.8,1950-05-01,0,0,a\nolder,,False,,1950-05-01,0,0,b\n"),
		"edges/user-bought-item.csv": []byte("user_id,item_id\nnew,i0\n")})
	clitest.MustRun(t, "append", dir, more)
	rows = namedFloats(t, dir, "user.x")
	if want := (1000 - mean) / deviation; math.Abs(float64(rows["user:new"][0])-want) > 1e-3 || rows["user:older"][0] != 0 || rows["user:older"][2] != 0 {
		t.Errorf("appended rows are %v and %v, expected %v and 0 first", rows["user:new"], rows["user:older"], want)
	}

	if code, _, errs := clitest.Run(t, "ingest", in, dir+"-none", "--normalize=none"); code == 0 || !strings.Contains(errs, `"age" has no value`) || !strings.Contains(errs, "--missing mean") {
		t.Errorf("missing numbers with --normalize=none: exit %d, %s", code, errs)
	}
	clitest.MustRun(t, "ingest", in, dir+"-none", "--normalize=none", "--missing", "zero")
	if row := namedFloats(t, dir+"-none", "user.x")["user:u0"]; !slices.Equal(row, []float32{20, 1, 1.8}) {
		t.Errorf("--normalize=none: user 0 is %v", row)
	}
	clitest.MustRun(t, "ingest", in, dir+"-all", "--normalize")
	if row := namedFloats(t, dir+"-all", "user.v")["user:u0"]; row[1] != 0 || row[0] > -1 {
		t.Errorf("--normalize: the vector of user 0 is %v, expected it standardised", row)
	}
	if code, _, errs := clitest.Run(t, "ingest", in, dir+"-some", "--normalize=some"); code != 2 || !strings.Contains(errs, "known: tables, all, none") {
		t.Errorf("--normalize=some: exit %d, %s", code, errs)
	}
	for _, c := range []struct{ store, what string }{{dir, "standardised"}, {dir + "-none", "plain"}} {
		out := filepath.Join(t.TempDir(), c.what)
		clitest.MustRun(t, "export", c.store, out, "--format", "tsv")
		clitest.MustRun(t, "ingest", out, c.store+"-again")
		want, got := namedFloats(t, c.store, "user.x"), namedFloats(t, c.store+"-again", "user.x")
		for v := range want {
			for d := range want[v] {
				if math.Abs(float64(want[v][d]-got[v][d])) > 1e-5 {
					t.Fatalf("%s: %s came back as %v, was %v", c.what, v, got[v], want[v])
				}
			}
		}
	}
}

// namedFloats are the rows of a column of float32 by name, of all nodes.
func namedFloats(t *testing.T, dir, column string) map[string][]float32 {
	t.Helper()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	rows := map[string][]float32{}
	for v := range s.Manifest().Nodes {
		name, err := s.External(t.Context(), store.NodeID(v))
		if err != nil {
			t.Fatal(err)
		}
		b, err := s.Features(t.Context(), column, []store.NodeID{store.NodeID(v)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(b); i += 4 {
			rows[name] = append(rows[name], math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
		}
	}
	return rows
}
