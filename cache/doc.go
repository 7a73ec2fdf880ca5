// Package cache decides what need not be moved again: which rows a smaller, faster memory keeps of a larger one that
// batches are gathered from. The smaller one is a device's beside the host's, or the host's beside a disk.
//
// # Model
//
// A [Policy] keeps the books of so many places. For each batch it tells where every row lies, which rows have to be
// sent, and to which places ([Transfer]); what is not worth keeping has a place for that batch only. So a policy moves
// bytes, and never decides what a batch is.
//
//	none       nothing is kept: each batch sends all its rows
//	tracker    the rows of the last batches, as many as there is room for (HyDRA's ValPt and LocPt), and a fixed region
//	           of rows that never leave ([Tracker.Pin]: PreSC's hottest, or hubs)
//	presc      the rows that presampled epochs visited most, for good (GNNLab's PreSC), and as tracker in what is left
//	lookahead  the rows that are needed soonest: exactly within a window of announced batches (Belady), by how often they
//	           were used behind it
//	oracle     the same, with a whole recorded [Trace] as window: what no policy can beat
//
// Rows that batches change in their places, such as learned embeddings, go back before others take them ([Options].Written),
// whatever the policy; [Flush] lists what is newer in its place.
//
// [Hotness] counts visits and names the rows worth a fixed place, [Reorder] orders a window of sampled batches so that
// neighbours share more (FastGL's Match-Reorder), [Divide] divides room between adjacency and features (DUCATI's
// allocator). What picks a policy is sampler/macro's ChooseDevice: the one that moves least on a record.
//
// # Memory
//
// All state is bookkeeping: the package never touches features, a device or a disk, and knows rows only as numbers
// (of a macro-batch: buffer.Adjacency's). Arrays lie off the Go heap; [Need] says beforehand what they take, for the
// run's account (store/budget).
//
// # Concurrency
//
// Values are not safe for concurrent use; a training loop owns one of each.
//
// Works cited are listed in docs/bibliography.md.
package cache
