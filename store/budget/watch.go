package budget

import "context"

// Watcher follows the accounts of the runs below a context. A program that runs one at a time has one: it bounds Go's heap, which
// is the program's and no run's, and may compare at each mark what an account says with what is held.
type Watcher interface {
	// Begin is called when a run's account is known, before what is in it is allocated. It replaces the one before.
	Begin(a *Account)
	// Holds tells what a holder of the account has allocated outside of Go's heap, by a function that may be called until release.
	Holds(name string, bytes func() int64) (release func())
	// Mark is called from the goroutine of the run where what it holds may be at its most.
	Mark(where string)
}

type watcherKey struct{}

// Watched returns a context whose runs w follows.
func Watched(ctx context.Context, w Watcher) context.Context {
	return context.WithValue(ctx, watcherKey{}, w)
}

func watcher(ctx context.Context) Watcher {
	w, _ := ctx.Value(watcherKey{}).(Watcher)
	return w
}

// Begin tells the context's watcher, if there is one, the account of a run that has a budget.
func Begin(ctx context.Context, a *Account) {
	if w := watcher(ctx); w != nil && a.TotalBytes > 0 {
		w.Begin(a)
	}
}

// Holds is [Watcher].Holds of the context's watcher.
func Holds(ctx context.Context, name string, bytes func() int64) (release func()) {
	if w := watcher(ctx); w != nil {
		return w.Holds(name, bytes)
	}
	return func() {}
}

// Mark is [Watcher].Mark of the context's watcher.
func Mark(ctx context.Context, where string) {
	if w := watcher(ctx); w != nil {
		w.Mark(where)
	}
}
