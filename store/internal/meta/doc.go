// Package meta is a store's metadata as bytes: where its files lie, the locks between processes, Pebble opened under
// them, and every key in it. What the values mean is for packages store and store/table.
//
// Pebble expects the process to end where writing fails; a library may not do that. [DB] therefore stands behind a
// fence (fence.go), which takes a failed instance out of service and returns the failure instead.
package meta
