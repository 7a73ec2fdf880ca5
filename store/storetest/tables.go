package storetest

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// TableDim is the dimension of the table that [TableOptions] describes.
const TableDim = 5

// TableOptions describes a small table called "nodes" whose first embeddings lie within ±0.2.
func TableOptions(engine blockio.Engine) table.Options {
	return table.Options{Name: "nodes", Dim: TableDim, States: 1, Engine: engine,
		Init: func(first store.NodeID, rows []float32) {
			for i := range rows {
				rows[i] = float32((int(first)*TableDim+i)%401-200) / 1000
			}
		}}
}

// Planes returns aligned buffers for partition p, in one slab.
func Planes(t testing.TB, tab *table.Table, p store.PartitionID) [][]byte {
	t.Helper()
	n := tab.PlaneBytes(p)
	slab, err := blockio.AllocSlab(max(1, n*int64(tab.Planes())), blockio.SlabOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = slab.Free() })
	var out [][]byte
	for i := range int64(tab.Planes()) {
		out = append(out, slab.Bytes()[i*n:(i+1)*n])
	}
	return out
}

// AllPlanes returns buffers of every partition and plane.
func AllPlanes(t testing.TB, tab *table.Table) (bufs [][][]byte) {
	for p := range tab.Partitions() {
		bufs = append(bufs, Planes(t, tab, store.PartitionID(p)))
	}
	return bufs
}

// stamp is what round writes everywhere, as bits: a function of round,
// partition, plane and element whose upper half is round+1.
func stamp(round, p, plane, i int) uint32 {
	return uint32(round+1)<<16 | uint32(p*1009+plane*101+i)&0xffff
}

// WriteRound writes partitions as of a round.
func WriteRound(tab *table.Table, bufs [][][]byte, round int) error {
	for p := range tab.Partitions() {
		for plane := range tab.Planes() {
			x, err := blocks.View[uint32](bufs[p][plane])
			if err != nil {
				return err
			}
			for i := range x {
				x[i] = stamp(round, p, plane, i)
			}
		}
		if err := tab.Write(context.Background(), store.PartitionID(p), bufs[p]...); err != nil {
			return err
		}
	}
	return nil
}

// RoundOf reads the whole table, checks that it is of one round and returns it; −1
// means the initial state.
func RoundOf(tab *table.Table, bufs [][][]byte) (int, error) {
	round := -2
	for p := range tab.Partitions() {
		if err := tab.Read(context.Background(), store.PartitionID(p), bufs[p]...); err != nil {
			return 0, err
		}
		if tab.Nodes(store.PartitionID(p)) == 0 {
			continue
		}
		for plane := range tab.Planes() {
			x, err := blocks.View[uint32](bufs[p][plane])
			if err != nil {
				return 0, err
			}
			x = x[:tab.Nodes(store.PartitionID(p))*TableDim]
			r := int(x[0]>>16) - 1
			if x[0] == 0 || x[0] >= 0x30000000 { // a float of the initial state
				r = -1
			}
			if round == -2 {
				round = r
			}
			if r != round {
				return 0, fmt.Errorf("partition %d plane %d is of round %d, expected %d", p, plane, r, round)
			}
			for i := range x {
				f := math.Float32frombits(x[i])
				switch {
				case r >= 0 && x[i] != stamp(r, p, plane, i), r < 0 && plane > 0 && x[i] != 0, r < 0 && (f < -0.2 || f > 0.2):
					return 0, fmt.Errorf("partition %d plane %d element %d is %#x in round %d", p, plane, i, x[i], r)
				}
			}
		}
	}
	return round, nil
}
