// Package ondevice plans and keeps what a device of its own memory holds in a training run of nodes: feature rows by a
// cache's policy or whole partitions in mirror ([Rows]), and neighbour lists, from which the device draws mini-batches
// itself. [Choose] says which of these moves least.
package ondevice
