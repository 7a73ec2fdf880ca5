// Package testdata embeds the small real graphs that the demo and the tests
// use. README.md beside it says where each comes from.
package testdata

import "embed"

// FS holds folder "cora": the numpy layout at its root, OGB's raw layout
// under "cora/ogb".
//
//go:embed cora
var FS embed.FS
