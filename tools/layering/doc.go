// Package layering holds the rule that lower layers never import upper ones:
//
//	blocks < partitioner, cache < store < sampler < gpu < tools
//
// and that code outside tests imports no test helpers. Its other tests check the pages.
package layering
