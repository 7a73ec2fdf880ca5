package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// extentKey names an extent of a version.
type extentKey struct {
	file string
	id   uint64
}

type contentCheck = func(e blocks.Extent, from int64, b []byte) error

// contentChecks returns the check of each extent that the version uses and whose
// contents promise something. Extents that a later file overrides have none.
func (v *verifier) contentChecks() map[extentKey]contentCheck {
	m := v.s.Manifest()
	checks := map[extentKey]contentCheck{}
	names := map[*blocks.File]string{}
	for _, ref := range m.Files {
		if f, err := v.s.Files().File(ref.Name); err == nil {
			names[f] = ref.Name
		}
	}
	put := func(f *blocks.File, e blocks.Extent, err error, c contentCheck) {
		if err == nil && c != nil {
			checks[extentKey{names[f], e.ID}] = c
		}
	}
	for p := range m.Partitions {
		id := store.PartitionID(p)
		f, e, err := v.s.Files().Topology(id)
		if err == nil {
			partitions := f.Header().Partitions // a stripe may be older than the last partitions
			put(f, e, err, func(e blocks.Extent, _ int64, b []byte) error { return checkStripe(m, id, partitions, b) })
		}
		for i := range m.Columns {
			c := &m.Columns[i]
			f, e, err := v.s.Files().Column(c.Name, id)
			if err == nil && f != nil && c.Coded(f) {
				put(f, e, err, codesCheck(c))
				continue
			}
			put(f, e, err, v.columnCheck(c, id))
		}
	}
	for _, l := range m.EdgeLists {
		f, err := v.s.Files().File(l.File)
		if err != nil {
			continue
		}
		for _, e := range f.Extents() {
			h := f.Header()
			put(f, e, nil, func(e blocks.Extent, from int64, b []byte) error { return checkEdges(m, int(h.Dim), b) })
		}
	}
	return checks
}

// codesCheck checks that codes have values.
func codesCheck(c *store.ColumnInfo) contentCheck {
	return func(_ blocks.Extent, from int64, b []byte) error {
		for k, code := range b {
			if int(code) >= len(c.Values) {
				return fmt.Errorf("code %d of row %d, expected one of %d values", code, from+int64(k), len(c.Values))
			}
		}
		return nil
	}
}

// checkStripe compares a stripe from so many partitions, already valid by itself, with the manifest.
func checkStripe(m *store.Manifest, j store.PartitionID, partitions uint32, b []byte) error {
	if int(partitions) > len(m.Partitions) {
		return fmt.Errorf("the stripe is from %d partitions, the manifest says %d", partitions, len(m.Partitions))
	}
	stripe, err := blocks.OpenStripe(b, partitions)
	if err != nil {
		return err
	}
	if n := m.Partitions[j].Nodes; uint64(stripe.DstNodes()) != n {
		return fmt.Errorf("the stripe is into %d nodes, the manifest says %d", stripe.DstNodes(), n)
	}
	for i := range m.Partitions[:partitions] {
		if n := m.Partitions[i].Nodes; uint64(stripe.SrcNodes(i)) != n {
			return fmt.Errorf("bucket %d is from %d nodes, the manifest says %d", i, stripe.SrcNodes(i), n)
		}
		if !m.Schema.Undirected {
			continue
		}
		if n := stripe.BucketEdges(i); i > int(j) && n > 0 {
			return fmt.Errorf("bucket %d of an undirected graph has %d edges, expected none above the diagonal", i, n)
		}
		if i != int(j) {
			continue
		}
		k, err := stripe.Bucket(i)
		if err != nil {
			return err
		}
		for dst, src := range k.All() {
			if src > dst {
				return fmt.Errorf("an undirected edge is stored as %d → %d, expected the smaller id first", src, dst)
			}
		}
	}
	return nil
}

// columnCheck returns the check of values that others index by; nil if any
// value will do.
func (v *verifier) columnCheck(c *store.ColumnInfo, p store.PartitionID) contentCheck {
	m := v.s.Manifest()
	var low, high int64
	var what string
	counted := false // whether it is the split that the manifest counts
	switch c.Role {
	case store.RoleFeature:
		return v.finiteCheck(c)
	case store.RoleLabel:
		if c.Numbers {
			return numberCheck
		}
		if m.Schema.Classes == 0 {
			return nil
		}
		low, high, what = -1, int64(m.LabelValues())-1, "label"
	case store.RoleSplit:
		low, high, what = 0, int64(store.SplitTest), "split"
		if m.ColumnsOf(store.RoleSplit)[0] == c {
			counted = true
		}
	case store.RoleRelation:
		low, high, what = 0, int64(len(m.Schema.Relations))-1, "relation"
	case store.RoleNode:
		k, ok := m.Category(c.Name)
		if !ok {
			return nil
		}
		low, high, what = 0, int64(k.Nodes), "number of a learned vector"
	default:
		return nil
	}
	size := c.Elem.Size()
	return func(_ blocks.Extent, from int64, b []byte) error {
		if counted {
			v.countSplit(p, b)
		}
		for k := 0; k+size <= len(b); k += size {
			x, ok := integer(b[k:], c.Elem)
			if !ok {
				return fmt.Errorf("a %s of type %v", what, c.Elem)
			}
			if x < low || x > high {
				return fmt.Errorf("%s %d of row %d, expected %d to %d", what, x, (from+int64(k))/int64(c.RowBytes()), low, high)
			}
		}
		return nil
	}
}

// countSplit counts the parts in a piece of partition p's first split.
func (v *verifier) countSplit(p store.PartitionID, b []byte) {
	var n [4]uint64
	for _, x := range b {
		n[x&3]++ // others are damage
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for part := range n {
		v.splits[p][part] += n[part]
	}
}

// checkSplits compares the counts with the manifest's.
func (v *verifier) checkSplits() {
	m := v.s.Manifest()
	columns := m.ColumnsOf(store.RoleSplit)
	if len(columns) == 0 || len(v.damage) > 0 || columns[0].Elem != blocks.Uint8 || columns[0].Dim != 1 {
		return
	}
	for p, info := range m.Partitions {
		if n := v.splits[p]; n[store.SplitTrain] != info.Train || n[store.SplitValid] != info.Valid || n[store.SplitTest] != info.Test {
			f, e, err := v.s.Files().Column(columns[0].Name, store.PartitionID(p))
			if err != nil {
				continue
			}
			h := f.Header()
			v.damaged(f, h.ExtentName(e.ID), "%d, %d and %d nodes to train, validate and test, the manifest says %d, %d and %d",
				n[store.SplitTrain], n[store.SplitValid], n[store.SplitTest], info.Train, info.Valid, info.Test)
		}
	}
}

// finiteCheck counts numbers of a feature that are NaN or infinite; nil where no such are.
func (v *verifier) finiteCheck(c *store.ColumnInfo) contentCheck {
	note := func(n uint64) {
		if n > 0 {
			v.mu.Lock()
			v.odd[c.Name] += n
			v.mu.Unlock()
		}
	}
	switch c.Elem {
	case blocks.Float32:
		return func(_ blocks.Extent, _ int64, b []byte) error {
			x, err := blocks.View[uint32](b)
			n := uint64(0)
			for _, bits := range x {
				if bits&0x7f800000 == 0x7f800000 {
					n++
				}
			}
			note(n)
			return err
		}
	case blocks.Float16, blocks.BFloat16, blocks.Float64:
		size := c.Elem.Size()
		return func(_ blocks.Extent, _ int64, b []byte) error {
			n := uint64(0)
			for k := 0; k+size <= len(b); k += size {
				if x := c.Elem.Float64(b[k:]); math.IsNaN(x) || math.IsInf(x, 0) {
					n++
				}
			}
			note(n)
			return nil
		}
	}
	return nil
}

// warnings lists what is odd and no damage.
func (v *verifier) warnings() (out []string) {
	for _, c := range v.s.Manifest().Columns {
		if n := v.odd[c.Name]; n > 0 {
			out = append(out, fmt.Sprintf("column %s: %d numbers are NaN or infinite", c.Name, n))
		}
	}
	return out
}

func integer(b []byte, t blocks.ElemType) (int64, bool) {
	le := binary.LittleEndian
	switch t {
	case blocks.Int8:
		return int64(int8(b[0])), true
	case blocks.Uint8:
		return int64(b[0]), true
	case blocks.Uint16:
		return int64(le.Uint16(b)), true
	case blocks.Int32:
		return int64(int32(le.Uint32(b))), true
	case blocks.Uint32:
		return int64(le.Uint32(b)), true
	case blocks.Int64, blocks.Uint64:
		return int64(le.Uint64(b)), true
	}
	return 0, false
}

// checkEdges checks the ids of an edge list; b holds whole rows (rowPiece).
func checkEdges(m *store.Manifest, dim int, b []byte) error {
	le := binary.LittleEndian
	for ; len(b) >= 8*dim; b = b[8*dim:] {
		src, dst := le.Uint64(b), le.Uint64(b[8*(dim-1):])
		if src >= m.Nodes || dst >= m.Nodes {
			return fmt.Errorf("edge %d → %d in a store of %d nodes", src, dst, m.Nodes)
		}
		if r := le.Uint64(b[8:]); dim == 3 && r >= uint64(len(m.Schema.Relations)) {
			return fmt.Errorf("edge of relation %d, the schema has %d", r, len(m.Schema.Relations))
		}
	}
	return nil
}

// checkIDs checks that external and internal ids map to each other: every
// node's external id, looked up, is that node. With as many entries as nodes, that
// makes the map one to one.
func (v *verifier) checkIDs(ctx context.Context) error {
	m := v.s.Manifest()
	if len(m.IDs.External) == 0 {
		return nil
	}
	if m.IDs.Kind == store.IDsDense {
		return v.checkDenseIDs(ctx)
	}
	var buf []byte
	for p := range m.Partitions {
		x, b, err := v.s.ReadExternal(ctx, store.PartitionID(p), buf)
		if err != nil {
			return err
		}
		buf = b
		ids := make([]store.NodeID, x.Len())
		if x.Ints != nil {
			err = v.s.LookupInts(ctx, x.Ints, ids)
		} else {
			text := make([]string, x.Len())
			for i := range text {
				text[i] = string(x.Strings.At(i))
			}
			err = v.s.LookupStrings(ctx, text, ids)
		}
		if err := v.noteDamage(err); err != nil {
			return err
		}
		for i, id := range ids {
			if want := m.Partitions[p].First + store.NodeID(i); id != want {
				f, e, err := v.s.Files().External(store.PartitionID(p))
				if err != nil {
					return err
				}
				h := f.Header()
				v.damaged(f, h.ExtentName(e.ID), "external id %s of node %d leads to node %d in the dictionary", x.Append(nil, i), want, int64(id))
				break // one a partition says enough
			}
		}
	}
	return nil
}

// checkDenseIDs compares the pairs (external, internal) of both directions by a
// fingerprint that does not depend on their order, so neither side is held
// in memory: the map has each external id once, the arrays each internal id
// once, so equal sets mean one-to-one.
func (v *verifier) checkDenseIDs(ctx context.Context) error {
	m := v.s.Manifest()
	var arrays, table fingerprint
	var buf []byte
	for p := range m.Partitions {
		x, b, err := v.s.ReadExternal(ctx, store.PartitionID(p), buf)
		if err != nil {
			return err
		}
		buf = b
		for i, external := range x.Ints {
			arrays.add(external, uint64(m.Partitions[p].First)+uint64(i))
		}
	}
	var last *blocks.File
	for k := uint64(0); ; k++ {
		f, e, ok, err := v.s.Files().IDMap(k)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		last = f
		h := f.Header()
		width := int(h.RowBytes())
		if buf, err = f.ReadExtent(e, buf); err != nil {
			return err
		}
		for i := range e.Rows {
			external := k*h.ExtentRows + i
			if internal, ok := mapped(buf[int(i)*width:], width); ok {
				if internal >= m.Nodes {
					v.damaged(f, h.ExtentName(e.ID), "external id %d leads to node %d of %d", external, internal, m.Nodes)
					return nil
				}
				table.add(external, internal)
			}
		}
	}
	if arrays != table {
		v.damaged(last, "ids", "the map (%d entries) and the arrays of external ids (%d) disagree", table.n, arrays.n)
	}
	return nil
}

// mapped decodes an entry of an id map; the largest value means absent.
func mapped(b []byte, width int) (uint64, bool) {
	if width == 4 {
		x := binary.LittleEndian.Uint32(b)
		return uint64(x), x != ^uint32(0)
	}
	x := binary.LittleEndian.Uint64(b)
	return x, x != ^uint64(0)
}

// fingerprint is the sum of a hash of each pair.
type fingerprint struct{ n, a, b uint64 }

func (f *fingerprint) add(x, y uint64) {
	h := mix(mix(x+0x9e3779b97f4a7c15) ^ y)
	f.n++
	f.a += h
	f.b += mix(h ^ 0xd6e8feb86659fd93)
}

// mix is SplitMix64's finaliser, a permutation in which every input bit moves every output bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// noteDamage turns corruption into a finding; other errors pass through.
func (v *verifier) noteDamage(err error) error {
	if !errors.Is(err, blocks.ErrCorrupt) {
		return err
	}
	v.mu.Lock()
	v.damage = append(v.damage, err)
	v.mu.Unlock()
	return nil
}

// numberCheck refuses labels that are no codes of numbers.
func numberCheck(_ blocks.Extent, from int64, b []byte) error {
	for k := 0; k+4 <= len(b); k += 4 {
		if code := int32(binary.LittleEndian.Uint32(b[k:])); !blocks.CheckNumberCode(code) {
			return fmt.Errorf("label %#x of row %d is the code of no number", uint32(code), (from+int64(k))/4)
		}
	}
	return nil
}
