package store

import "github.com/gstore/gstore/blocks"

// Identifiers, the same as in package blocks.
type (
	NodeID      = blocks.NodeID
	PartitionID = blocks.PartitionID
	RelationID  = blocks.RelationID
)
