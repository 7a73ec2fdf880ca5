// Package loader hands out a store's mini-batches to callers with a training loop of their own, Python's among them: the
// batches, plans, budgets and histories are those of package train, without its model.
package loader
