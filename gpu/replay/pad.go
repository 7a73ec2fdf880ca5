package replay

// Block pads block i, whose sources are so many: added destinations share the added edges, which come from added sources by turns.
// The slices are valid until the next call.
func (s *Steps) Block(x *Shape, i, sources int, indptr, indices []int32) (paddedIndptr, paddedIndices []int32) {
	n, e := len(indptr)-1, len(indices)
	nodes, edges, from := x.Nodes[i+1]-n, x.Edges[i]-e, x.Nodes[i]-sources
	s.indptr, s.indices = append(s.indptr[:0], indptr...), append(s.indices[:0], indices...)
	for d := 1; d <= nodes; d++ {
		s.indptr = append(s.indptr, int32(e+edges*d/nodes))
	}
	for j := range edges {
		s.indices = append(s.indices, int32(sources+j%from))
	}
	return s.indptr, s.indices
}

// Degrees pads the degrees of nodes of level i, input first: an added node has one edge.
func (s *Steps) Degrees(x *Shape, i int, degrees []int32) []int32 {
	s.numbers = padded(s.numbers, degrees, x.Nodes[i], 1)
	return s.numbers
}

// Labels pads the seeds' labels: an added seed has none.
func (s *Steps) Labels(x *Shape, labels []int32) []int32 {
	s.numbers = padded(s.numbers, labels, x.Nodes[len(x.Nodes)-1], -1)
	return s.numbers
}

// Rows pads the input's rows: an added one is the first.
func (s *Steps) Rows(x *Shape, rows []uint32) []uint32 {
	s.rows = padded(s.rows, rows, x.Nodes[0], rows[0])
	return s.rows
}

// padded appends x to the emptied buffer, and fill until there are n.
func padded[T any](buffer, x []T, n int, fill T) []T {
	buffer = append(buffer[:0], x...)
	for len(buffer) < n {
		buffer = append(buffer, fill)
	}
	return buffer
}
