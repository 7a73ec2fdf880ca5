// Package macro plans an epoch: which partitions are in memory when, and what
// is trained while they are. It is stage one of multistage sampling.
//
// A [Policy] turns an epoch's number into a [buffer.Plan]. Plans are pure
// functions of the [Config] and the epoch; nothing here touches a store or a
// clock, so that a plan can be shown, costed ([Cost]) and judged ([Bias])
// before anything is read, and made again after a crash.
//
//	memory      everything resident, one step
//	rows        node tasks: the graph resident, one step; rows of features are read as batches use them (package store/rows)
//	hanoi       node tasks: hubs pinned, the rest shuffled and taken b at a time (thesis chapter 4)
//	trainnodes  node tasks: training nodes pinned, random others beside them (MariusGNN section 5.2)
//	comet       link tasks: logical partitions, one-swap cover of all pairs, deferred
//	            assignment of buckets (MariusGNN section 5.1)
//	beta        link tasks: Marius' greedy order, the baseline
//
//	policy, err := macro.New(macro.Config{Policy: macro.Hanoi, Partitions: 32, Capacity: 4, Seed: 1})
//	…
//	plan := policy.Epoch(0)
//
// [Choose] and [Advise] choose numbers from a memory budget and say why.
//
// Works cited, "the thesis" among them, are listed in docs/bibliography.md.
package macro
