package train

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// batchPlace is the next mini-batch of an epoch. Random draws are keyed by seed and place, so that
// the place is their state.
type batchPlace struct {
	Step  int `json:"step"`
	Pass  int `json:"pass"`
	Batch int `json:"batch"`
}

// epochTotals are an unfinished epoch's counts, as checkpoints keep them.
type epochTotals struct {
	Loss         float64 `json:"loss"`
	Correct      float64 `json:"correct"`
	Examples     int64   `json:"examples"` // nodes, or queries: two an edge
	Batches      int64   `json:"batches"`
	Edges        int64   `json:"edges"`
	Steps        int     `json:"steps"`
	Passes       []int   `json:"passes,omitempty"` // of the steps before, where timing decided them
	BytesRead    int64   `json:"bytes_read"`
	BytesWritten int64   `json:"bytes_written,omitempty"`
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds,omitempty"`
	Profile      Profile `json:"profile"`
}

// resume returns the counts that an epoch goes on from.
func (t *epochTotals) resume() totals {
	return totals{loss: t.Loss, correct: t.Correct, seeds: t.Examples, batches: t.Batches, edges: t.Edges, profile: t.Profile}
}

// soFar is the inverse of resume, with what an epoch began with and how long this process has been at it.
func (t *totals) soFar(was *epochTotals, start time.Time, steps int) epochTotals {
	return epochTotals{Loss: t.loss, Correct: t.correct, Examples: t.seeds, Batches: t.batches, Edges: t.edges, Profile: t.profile,
		Steps: steps, Seconds: was.Seconds + time.Since(start).Seconds()}
}

// resumeConfig returns the configuration that a run goes on with: what is set in c must be what the run began with, but for
// fields tagged resume:"free"; normalize fills in defaults, so that what is given may be given as it was.
func resumeConfig[T any](c, began T, normalize func(*T) error) (T, error) {
	out := began
	from, to, old := reflect.ValueOf(c), reflect.ValueOf(&out).Elem(), reflect.ValueOf(began)
	var set []int
	for i := range from.NumField() {
		if from.Field(i).IsZero() {
			continue
		}
		if s, ok := from.Field(i).Interface().(string); ok && s == "auto" {
			continue
		}
		to.Field(i).Set(from.Field(i))
		if from.Type().Field(i).Tag.Get("resume") == "" {
			set = append(set, i)
		}
	}
	err := normalize(&out)
	for _, i := range set {
		if !reflect.DeepEqual(to.Field(i).Interface(), old.Field(i).Interface()) {
			name, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("json"), ",")
			return c, fmt.Errorf("train: resume: the run began with %s %v, not %v: leave it out or begin afresh", name, reflect.Indirect(old.Field(i)), reflect.Indirect(from.Field(i)))
		}
	}
	return out, err
}
