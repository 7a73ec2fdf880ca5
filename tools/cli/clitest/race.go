//go:build race

package clitest

// RaceEnabled says whether the race detector is on, which takes memory of its own.
const RaceEnabled = true
