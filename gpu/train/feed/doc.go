// Package feed brings a run its mini-batches: each epoch's plan, the mini-batches of a step in their order, sampled ahead
// ([Batches]), as many passes over a step as it has ([Passes]), the rows of batches that plan rows reads ahead ([Feeder]),
// and what corrects the loss for a step's mixture of classes ([LabelShift]).
//
// Every order is keyed by (seed, epoch, step, pass), so that it is the same for any number of threads and after a resume.
package feed
