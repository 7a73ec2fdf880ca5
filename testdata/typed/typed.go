// Package typed embeds a small graph of several types of nodes, and the store that version 1 of the format made of it.
// ../README.md says how.
package typed

import _ "embed"

// Version1 is a compressed tar: graph/ is the folder that was ingested, store/ the store.
//
//go:embed version1.tar.gz
var Version1 []byte
