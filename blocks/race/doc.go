// Package race tells tests whether the race detector is on. It makes code some ten times slower and takes memory of its
// own, and has nothing to find in the arithmetic of one goroutine: there, loops over cases take every few of them.
package race

// Every returns step where the race detector is on, else 1: how far a loop over cases of the same kind goes on at a time.
func Every(step int) int {
	if Enabled {
		return step
	}
	return 1
}
