// Package temporal predicts the edges that come next: to which node a given node will have an edge at a given moment, from
// what was before it.
//
// The protocol is that of TGB (Huang and others, "Temporal Graph Benchmark for Machine Learning on Temporal Graphs", NeurIPS 2023,
// section 4.1): edges are split by time, a model's weights are those of the training edges, and what an edge is predicted from
// may be every edge strictly before it, those of validation and test included. Edges of the same moment are its future. Every
// edge that a batch samples is held to that rule while training and while evaluating: one that breaks it ends the run.
//
// A node's state at a moment is GraphSAGE's over edges sampled by [mini.Temporal] or [mini.Latest], whose ages are encoded as in
// TGAT (Xu and others, ICLR 2020, eq. 5), with frequencies that are learned or fixed in a geometric series, as in GraphMixer (Cong and
// others, ICLR 2023, section 3.1; [Config].TimeEncoding). Candidates are scored by its product with their vectors, and by what is known
// of when they were last met (recency). The recency rule alone, without a model, is evaluated beside it.
//
// The graph is in memory for the whole run. Epochs, checkpoints and the end of a run are [run.Run]'s, as those of nodes and links are: a run
// that is interrupted goes on within an epoch, bit for bit. Its best epoch's model is a [Checkpoint], by which [Evaluate] ranks again.
package temporal
