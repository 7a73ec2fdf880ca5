package coarse

// Tournament keeps the counts of k partitions and names one with the lowest:
// the balancing heap of the thesis' Algorithm 2 (lines 8–11), where the best balancing
// score belongs to the lowest count. A complete binary tree of matches lies
// in one array; a change replays the matches on one path, O(log k), and stops
// where the winner's standing no longer changes anything.
//
// Ties go to the lower partition, so that the winner depends on counts alone.
type Tournament struct {
	base  int      // leaves start here: a power of two ≥ k
	tree  []uint32 // tree[1] is the winner; node i plays tree[2i] against tree[2i+1]; leaves are implied
	Count []uint32 // by partition
}

// NewTournament is one of k partitions, all empty.
func NewTournament(k int) Tournament {
	base := 1
	for base < k {
		base *= 2
	}
	t := Tournament{base: base, tree: make([]uint32, base), Count: make([]uint32, k)}
	t.Rebuild()
	return t
}

// TournamentBytes is the memory of a tournament over k partitions.
func TournamentBytes(k int) int64 {
	base := int64(1)
	for base < int64(k) {
		base *= 2
	}
	return 4 * (base + int64(k))
}

// player is who sits at node i: a leaf is its partition.
func (t *Tournament) player(i int) uint32 {
	if i >= t.base {
		return uint32(i - t.base)
	}
	return t.tree[i]
}

func (t *Tournament) match(i int) uint32 {
	a, b := t.player(2*i), t.player(2*i+1)
	// Leaves beyond k always lose; they are right of every real one.
	if int(b) < len(t.Count) && t.Count[b] < t.Count[a] {
		return b
	}
	return a
}

// Rebuild replays every match after counts changed in bulk.
func (t *Tournament) Rebuild() {
	for i := t.base - 1; i >= 1; i-- {
		t.tree[i] = t.match(i)
	}
}

// Lowest is a partition with the fewest.
func (t *Tournament) Lowest() uint32 { return t.player(1) }

// Add changes p's count by d.
func (t *Tournament) Add(p uint32, d int32) {
	t.Count[p] = uint32(int32(t.Count[p]) + d)
	for i := (t.base + int(p)) / 2; i >= 1; i /= 2 {
		w := t.match(i)
		if w == t.tree[i] && w != p {
			return // p lost here before and after: nothing above saw it
		}
		t.tree[i] = w
	}
}
