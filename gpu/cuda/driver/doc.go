// Package driver opens the CUDA driver at run time and completes
// gorgonia.org/cu with what that package lacks: pinned and registered host
// memory, contexts that are released, and launches with packed parameters.
//
// Without the tag cuda it is empty. With it, ../build.sh makes what the C
// compiler needs (cuda.h and a list of its functions) in .cache/cuda.
//
// # Concurrency
//
// A [Context] may be used by any goroutine: each call makes it current on the
// thread it happens to run on. Calls of package cu itself go through
// [Context.Do].
package driver
