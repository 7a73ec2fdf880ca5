// Package race tells tests whether the race detector is on. It makes code some ten times slower and takes memory of its
// own, and has nothing to find in the arithmetic of one goroutine: there, loops over cases take every few of them. Long
// loops take every few of them without it too, unless all are asked for.
package race

import "os"

// FullEnv in the environment makes tests try all cases, as tools/nightly does: every crash point, operation and damage.
// Otherwise the long ones try every few, evenly spread, so that all tests take minutes.
const FullEnv = "GSTORE_FULL_TESTS"

// Every returns step where the race detector is on, else 1: how far a loop over cases of the same kind goes on at a time.
func Every(step int) int { return Sample(1, step) }

// Sample is how far a long loop over cases of the same kind goes on at a time: raced with the race detector on, else
// plain, or 1 where all are asked for.
func Sample(plain, raced int) int {
	switch {
	case os.Getenv(FullEnv) != "":
		return 1
	case Enabled:
		return raced
	}
	return plain
}
