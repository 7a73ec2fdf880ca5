// Package bound says the most that sampled mini-batches of a model of relations can hold: how many edges, groups of edges
// by relation, and nodes of each type the blocks of so many seeds have ([Sampled]). It is counted once a store, so that
// budgets and plans go by the graph instead of by the worst graph there could be.
package bound
