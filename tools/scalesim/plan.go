package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// trainer is how fast something is trained, as measured in a run whose storage did not hold it up.
type trainer struct {
	batch   float64 // seconds of a mini-batch: drawing, forward, backward, update
	history float64 // seconds that filling histories takes a node, 0 without them
	pack    float64 // seconds that plan rows takes to lay a row aside
}

// planned is an epoch as "gstore plan STORE --steps --json" says it: what a replay needs of it.
type planned struct {
	plan     string
	steps    []plannedStep
	all      float64 // bytes of the store's data files
	nodes    float64
	perBatch float64 // examples
	rows     *packed // of plan rows
}

type plannedStep struct {
	read, requests float64
	examples       float64
	resident       []int
	loads          float64 // partitions; of plan rows, rows
}

// readPlan takes the first epoch of what gstore plan printed.
func readPlan(out []byte) (p planned, err error) {
	for line := range bytes.Lines(out) {
		var e struct {
			Event    string  `json:"event"`
			Epoch    int     `json:"epoch"`
			Bytes    float64 `json:"bytes_read"`
			Requests float64 `json:"requests"`
			Examples float64 `json:"examples"`
			Loads    float64 `json:"loads"`
			Resident []int   `json:"resident"`
			Plan     string  `json:"plan"`
			Rows     *packed `json:"rows"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return p, err
		}
		switch {
		case e.Event == "step" && e.Epoch == 1:
			p.steps = append(p.steps, plannedStep{read: e.Bytes, requests: e.Requests, examples: e.Examples, resident: e.Resident, loads: e.Loads})
		case e.Event == "summary":
			p.plan = e.Plan
			p.rows = e.Rows
		}
	}
	if len(p.steps) == 0 {
		return p, fmt.Errorf("gstore plan printed no steps")
	}
	return p, nil
}

// packed is how plan rows reads: for each window of mini-batches all columns once, from which the rows that these use are written next to
// each other, and then those.
type packed struct {
	RowBytes float64 `json:"row_bytes"`
	Window   float64 `json:"window_rows"` // most that a window has
	Used     float64 `json:"used"`        // by all mini-batches
}

// windows is an epoch of plan rows: while a window is trained the next one is packed. columns is what one pass reads, batches what computing
// all takes in seconds, pack packing a row.
func (r *packed) windows(columns, batches, pack float64) (steps []step) {
	n := max(1, math.Ceil(r.Used/r.Window))
	rows := r.Used / n
	for k := range int(n) + 1 {
		s := step{alone: true}
		if k < int(n) {
			s = step{read: columns, written: rows * r.RowBytes, compute: pack * rows, alone: true}
		}
		if k > 0 {
			s.read, s.compute = s.read+rows*r.RowBytes, s.compute+batches/n
		}
		s.requests = s.read / diskRequest
		steps = append(steps, s)
	}
	return steps
}

// diskRequest is the size of a request of a disk that is read in order.
const diskRequest = 1 << 20
