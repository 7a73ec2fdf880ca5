package bench

import (
	"context"
	"testing"

	"github.com/gstore/gstore/partitioner"
)

func TestPartitionComparesMethods(t *testing.T) {
	g, classes, err := PartitionGraph("sbm:4000:20000:8:0.8", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close() //nolint:errcheck // test
	var rows []PartitionRow
	err = Partition(context.Background(), g, classes, PartitionOptions{
		Methods: []partitioner.Method{partitioner.MethodRandom, partitioner.MethodFennel, partitioner.MethodGAP}, Partitions: []int{4, 8},
	}, func(r PartitionRow) { rows = append(rows, r) })
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 {
		t.Fatalf("%d rows, expected 6", len(rows))
	}
	for i := 0; i < 6; i += 3 {
		if rows[i+1].Cut >= rows[i].Cut || rows[i+1].Passes == 0 || rows[i+1].EdgesPerSecond <= 0 {
			t.Errorf("random %+v, fennel %+v", rows[i], rows[i+1])
		}
	}
	for _, bad := range []string{"rmat:0:10", "/none"} {
		if _, _, err := PartitionGraph(bad, 1); err == nil {
			t.Errorf("graph %q: no error", bad)
		}
	}
}
