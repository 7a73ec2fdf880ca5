package edges

// takeOld takes out of the open stripe's bucket what equals one of the edges keys, sorted, whose columns are w.columns, and of
// [EqualReplace] puts these in. The result is valid until the next call, and may be empty.
func (w *edgeWriter) takeOld(src int, keys []uint64) (_ []uint64, columns [][]byte, err error) {
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
		w.takeEqual(keys[k], i, oldEnd, k, end)
		i, k = oldEnd, end
	}
	for ; i < len(old); i++ {
		m.take(old[i], o.head.Columns, i)
	}
	return m.keys, m.columns, o.advance() // the head's columns are copied: the next bucket may be read
}

// takeEqual merges old edges i ≤ x < oldEnd and new ones k ≤ y < end, all of one key.
func (w *edgeWriter) takeEqual(key uint64, i, oldEnd, k, end int) {
	o, m := w.s.Old, &w.merged
	width := w.s.Rules.RelationBytes()
	compared := width // in a store that has one edge a pair of nodes, a new one of any relation replaces it
	if o.equal == EqualReplace {
		compared = w.s.Rules.equalBytes()
	}
	equal := func(x, y int) bool {
		return compared == 0 || relationAt(o.head.Columns[0][x*width:], width) == relationAt(w.columns[0][y*width:], width)
	}
	for x := i; x < oldEnd; x++ {
		gone := false
		for y := k; y < end && !gone; y++ {
			gone = equal(x, y)
		}
		if !gone {
			m.take(key, o.head.Columns, x)
			continue
		}
		w.counts.Gone++
		r := uint32(0)
		if width > 0 {
			r = relationAt(o.head.Columns[0][x*width:], width)
		}
		w.counts.RelationsGone[r]++
	}
	for y := k; y < end; y++ {
		matched := false
		for x := i; x < oldEnd && !matched; x++ {
			matched = equal(x, y)
		}
		if !matched {
			w.counts.Unmatched++
		}
		if o.equal == EqualDelete {
			continue
		}
		m.take(key, w.columns, y)
		var first [][]byte
		if width > 0 {
			first = [][]byte{w.columns[0][y*width : (y+1)*width]}
		}
		w.countRelations(first, 1)
	}
}
