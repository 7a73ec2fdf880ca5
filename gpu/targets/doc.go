// Package targets predicts targets of rows of a database at moments: whether a customer buys within a month, from what was known that day.
//
// A training table has rows of an entity, a moment and a target (database.Task). Of an entity at a moment a tree of rows is sampled that
// were known then ([asof.Sampler]): the latest rows that refer to each, and those that it refers to. Every batch is held to that rule, while
// training and while evaluating: a row with a later time ends the run.
//
// The model is that of Robinson and others, "RelBench: A Benchmark for Deep Learning on Relational Databases" (NeurIPS 2024), section 4: an
// encoder for each table, layers of GraphSAGE with a weight matrix for each relation, and a head for the entity's state. Beside its columns a
// row has its age at the seed's moment, and a mean over rows of a relation has one over the latest few beside it.
//
// Two protocols: by default a seed is predicted from what was known at its own moment; with [Config].KnownUntil from what was known then at
// most, as RelBench's leaderboard does.
//
// Topology, times and columns are in memory for the whole run. Epochs, checkpoints and the end of a run are [run.Run]'s.
package targets
