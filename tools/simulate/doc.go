// Package simulate holds a test of the whole life of a store, in the manner of Pebble's metamorphic
// test: from one seed a random history of ingest, append, repartition, precompute,
// export and damage, with readers held open, on a disk that crashes, loses what was not synced,
// fills up or fails. After each step the store must hold what a plain model in memory holds.
//
//	go test ./tools/simulate -count 1 -v                 for 2 s; GSTORE_SIMULATE=10m for longer
//	go test ./tools/simulate -count 1 -v -args -seed 15  one history again, with its steps
package simulate
