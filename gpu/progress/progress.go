// Package progress says how far a training run is and what it took: the place where it goes on, the counts of an
// unfinished epoch as checkpoints keep them, when the next checkpoint is due, where the time went, and with which configuration a
// run may be resumed. Training of nodes and of links share it.
package progress

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Place is the next mini-batch of an epoch. Random draws are keyed by seed and place, so that
// the place is their state.
type Place struct {
	Step  int `json:"step"`
	Pass  int `json:"pass"`
	Batch int `json:"batch"`
}

// Totals are an unfinished epoch's counts, as checkpoints keep them.
type Totals struct {
	Loss         float64 `json:"loss"`
	Correct      float64 `json:"correct"`
	Examples     int64   `json:"examples"` // nodes, or queries: two an edge
	Batches      int64   `json:"batches"`
	Edges        int64   `json:"edges"`
	Pruned       int64   `json:"pruned,omitempty"`
	Listed       int64   `json:"listed,omitempty"`
	Steps        int     `json:"steps"`
	Passes       []int   `json:"passes,omitempty"` // of the steps before, where timing decided them
	BytesRead    int64   `json:"bytes_read"`
	BytesWritten int64   `json:"bytes_written,omitempty"`
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds,omitempty"`
	Profile      Profile `json:"profile"`
}

// Counts is what training counts in an epoch.
type Counts struct {
	Loss     float64 // sum over examples
	Correct  float64
	Examples int64 // nodes, or queries: two an edge
	Batches  int64
	Edges    int64 // sampled
	Pruned   int64 // of the edges of lists that were drawn from, those left out by threshold pruning
	Listed   int64 // edges of these lists
	Profile  Profile
}

// Counts returns what an epoch goes on from.
func (t *Totals) Counts() Counts {
	return Counts{Loss: t.Loss, Correct: t.Correct, Examples: t.Examples, Batches: t.Batches, Edges: t.Edges, Pruned: t.Pruned, Listed: t.Listed, Profile: t.Profile}
}

// Totals is the inverse of [Totals.Counts], with what an epoch began with and how long this process has been at it.
func (c *Counts) Totals(was *Totals, start time.Time, steps int) Totals {
	return Totals{Loss: c.Loss, Correct: c.Correct, Examples: c.Examples, Batches: c.Batches, Edges: c.Edges, Pruned: c.Pruned, Listed: c.Listed, Profile: c.Profile,
		Steps: steps, Seconds: was.Seconds + time.Since(start).Seconds()}
}

// Interrupted is the error of a run that its context ended in an epoch, counted from 1, after so many of its mini-batches,
// and that goes on from what lies in where.
func Interrupted(err error, epoch int, batches int64, where string) error {
	return fmt.Errorf("train: interrupted in epoch %d after %d mini-batches: --resume goes on there (%s): %w", epoch, batches, where, err)
}

// Profile says where an epoch's time went, as seen by the training goroutine.
type Profile struct {
	Wait     time.Duration `json:"wait"`     // for the next macro-batch
	Sample   time.Duration `json:"sample"`   // for the next mini-batch (sampling that was not hidden)
	Forward  time.Duration `json:"forward"`  // gather, aggregate and layers
	Backward time.Duration `json:"backward"` // loss and backward passes
	Optimize time.Duration `json:"optimize"`
}

// Add adds q to p.
func (p *Profile) Add(q Profile) {
	p.Wait += q.Wait
	p.Sample += q.Sample
	p.Forward += q.Forward
	p.Backward += q.Backward
	p.Optimize += q.Optimize
}

// Resume returns the configuration that a run goes on with: what is set in c, or named by its field Given, must be what the run began with, but for
// fields tagged resume:"free"; normalize fills in defaults, so that what is given may be given as it was.
func Resume[T any](c, began T, normalize func(*T) error) (T, error) {
	out := began
	from, to, old := reflect.ValueOf(c), reflect.ValueOf(&out).Elem(), reflect.ValueOf(began)
	var given []string
	if g := from.FieldByName("Given"); g.IsValid() {
		given, _ = g.Interface().([]string)
	}
	var set []reflect.StructField
	for _, f := range reflect.VisibleFields(from.Type()) {
		if f.Anonymous {
			continue
		}
		value := from.FieldByIndex(f.Index)
		if value.IsZero() && !slices.Contains(given, jsonName(f)) {
			continue
		}
		if s, ok := value.Interface().(string); ok && s == "auto" {
			continue
		}
		to.FieldByIndex(f.Index).Set(value)
		if f.Tag.Get("resume") == "" {
			set = append(set, f)
		}
	}
	err := normalize(&out)
	for _, f := range set {
		was := old.FieldByIndex(f.Index)
		if !reflect.DeepEqual(to.FieldByIndex(f.Index).Interface(), was.Interface()) {
			return c, fmt.Errorf("train: resume: the run began with %s %v, not %v: leave it out or begin afresh",
				jsonName(f), reflect.Indirect(was), reflect.Indirect(from.FieldByIndex(f.Index)))
		}
	}
	return out, err
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
