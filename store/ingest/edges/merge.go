package edges

// mergeOld merges new edges, sorted, with what the open stripe's bucket holds, as [Equal] says; w.columns are theirs. Of one key the old
// ones come first. The result is valid until the next call, and may be empty.
func (w *edgeWriter) mergeOld(src int, keys []uint64) (_ []uint64, columns [][]byte, err error) {
	if err := w.copyOld(src); err != nil {
		return nil, nil, err
	}
	o, m := w.s.Old, &w.merged
	if o.head == nil || int(o.head.Src) != src {
		w.counts.Unmatched += uint64(len(keys))
		if o.equal == EqualDelete {
			return nil, nil, nil
		}
		w.countRelations(w.columns, len(keys))
		return keys, w.columns, nil
	}
	if err := o.fits(o.head, len(keys)); err != nil {
		return nil, nil, err
	}
	old := m.oldKeys(o.head)
	m.begin(w.columns, len(keys))
	i := 0
	for k := 0; k < len(keys); {
		for ; i < len(old) && old[i] < keys[k]; i++ {
			m.take(old[i], o.head.Columns, i)
		}
		end, oldEnd := k+1, i
		for end < len(keys) && keys[end] == keys[k] {
			end++
		}
		for oldEnd < len(old) && old[oldEnd] == keys[k] {
			oldEnd++
		}
		w.mergeEqual(keys[k], i, oldEnd, k, end)
		i, k = oldEnd, end
	}
	for ; i < len(old); i++ {
		m.take(old[i], o.head.Columns, i)
	}
	return m.keys, m.columns, o.advance() // the head's columns are copied: the next bucket may be read
}

// mergeEqual merges old edges i ≤ x < oldEnd and new ones k ≤ y < end, all of one key.
func (w *edgeWriter) mergeEqual(key uint64, i, oldEnd, k, end int) {
	o, m, rules := w.s.Old, &w.merged, &w.s.Rules
	width := rules.RelationBytes()
	compared := rules.equalBytes() // in a store that has one edge a pair of nodes, a new one of any relation equals it
	if o.equal == EqualDelete {
		compared = width
	}
	equal := func(x, y int) bool {
		return compared == 0 || relationAt(o.head.Columns[0][x*width:], width) == relationAt(w.columns[0][y*width:], width)
	}
	for x := i; x < oldEnd; x++ {
		gone := false
		for y := k; o.equal != EqualStay && y < end && !gone; y++ {
			gone = equal(x, y)
		}
		if !gone {
			m.take(key, o.head.Columns, x)
			continue
		}
		w.counts.Gone++
		countRelations(w.counts.RelationsGone, relationRow(o.head.Columns, x, width), 1, width)
	}
	for y := k; y < end; y++ {
		matched := false
		for x := i; (o.equal != EqualStay || rules.Drop) && x < oldEnd && !matched; x++ {
			matched = equal(x, y)
		}
		switch {
		case !matched:
			w.counts.Unmatched++
		case o.equal == EqualStay:
			w.counts.Duplicates++
			continue
		}
		if o.equal == EqualDelete {
			continue
		}
		m.take(key, w.columns, y)
		countRelations(w.counts.Relations, relationRow(w.columns, y, width), 1, width)
	}
}

// relationRow is edge i's relation, of so many bytes, which the first of its columns holds; nil of 0.
func relationRow(columns [][]byte, i, width int) []byte {
	if width == 0 {
		return nil
	}
	return columns[0][i*width : (i+1)*width]
}
