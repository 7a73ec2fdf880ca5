// Package history keeps what neighbours outside memory contribute to a layer: their hidden states as of the start of the
// epoch, summed for every destination that will need them (docs/lab/findings.md, "Historical aggregates"; the idea is
// GNNAutoScale's, without its table of all states). [Layer] is one layer's, [Set] all that a model has, [Cost] what they
// take.
package history
