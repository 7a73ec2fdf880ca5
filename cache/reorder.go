package cache

// Reorder orders a window of sampled batches so that each shares as many rows
// as possible with the one before it: FastGL's Greedy Reorder Strategy
// (section 4.1, Algorithm 1). batches[i] lists the distinct input rows of
// batch i, all below rows. The result is a permutation of
// 0 … len(batches)−1 that starts with 0; ties go to the earlier batch.
//
// FastGL computes the whole n × n matrix of match degrees first; only the row
// of the last chosen batch is needed, so this marks that batch's rows in a
// dense array and counts each candidate against it: O(n · total rows) time,
// O(rows) memory.
func Reorder(batches [][]uint32, rows int) []int {
	order := make([]int, 0, len(batches))
	mark := make([]int32, rows) // 1 + the batch that last marked a row
	used := make([]bool, len(batches))
	for last := 0; len(order) < len(batches); {
		order = append(order, last)
		used[last] = true
		for _, r := range batches[last] {
			mark[r] = int32(last) + 1
		}
		best, bestMatch := -1, -1
		for i, b := range batches {
			if used[i] {
				continue
			}
			match := 0
			for _, r := range b {
				if mark[r] == int32(last)+1 {
					match++
				}
			}
			if match > bestMatch {
				best, bestMatch = i, match
			}
		}
		last = best
	}
	return order
}
