// Package simulate holds a test of the whole life of a store, in the manner of Pebble's metamorphic
// test: from one seed a random history of ingest, append, repartition, precompute, training of nodes and links,
// export and damage, with readers held open, and on real files beside the writer, on a disk that crashes, loses what
// was not synced, fills up or fails. After each step the store must hold what a plain model in memory holds, and
// whatever checkpoint was announced; a run that was interrupted must end with the bits of one that was not.
//
//	go test ./tools/simulate -count 1 -v                 for 2 s; GSTORE_SIMULATE=10m for longer
//	go test ./tools/simulate -count 1 -v -args -seed 15  one history again, with its steps
package simulate
