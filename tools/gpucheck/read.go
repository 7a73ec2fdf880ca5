package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// of returns the events of one kind.
func of(events []event, kind string) (some []event) {
	for _, e := range events {
		if e.text("event") == kind {
			some = append(some, e)
		}
	}
	return some
}

func readDevices(events []event, r *result) error {
	r.Columns = []string{"device", "", "capability", "memory GiB"}
	gpus := 0
	for _, e := range of(events, "device") {
		memory := ""
		if n := e.number("memory_bytes"); n > 0 {
			gpus++
			memory = fmt.Sprintf("%.1f", n/(1<<30))
		}
		r.Rows = append(r.Rows, []string{e.text("name"), e.text("detail"), e.text("capability"), memory})
	}
	if gpus == 0 {
		return errors.New("there is no GPU: is the driver installed, and does gstore devices say why?")
	}
	return nil
}

// readOperations fails no check by a missed target: a target says where to look.
func readOperations(events []event, r *result) error {
	r.Columns = []string{"operation", "µs", "GB/s", "TFLOP/s", "of copy", "target"}
	for _, e := range of(events, "operation") {
		flops, target := "", ""
		if n := e.number("flops"); n > 0 {
			flops = fmt.Sprintf("%.1f", n/e.number("seconds")/1e12)
		}
		if n := e.number("target"); n > 0 {
			target = fmt.Sprintf("%.2f", n)
			if e.number("share") < n {
				target += " missed"
			}
		}
		r.Rows = append(r.Rows, []string{e.text("name"), fmt.Sprintf("%.1f", 1e6*e.number("seconds")), fmt.Sprintf("%.0f", e.number("gb_s")), flops, fmt.Sprintf("%.2f", e.number("share")), target})
	}
	if len(r.Rows) == 0 {
		return errors.New("it measured nothing")
	}
	return nil
}

// readSampling shows the rounds. Blocks that are not the host's end the command.
func readSampling(events []event, r *result) error {
	r.Columns = []string{"M edges/s", "of device time", "edges a batch", "inputs a batch", "sent MB", "blocks MB"}
	for _, e := range of(events, "round") {
		edges, batches := e.number("sampled_edges"), e.number("batches")
		r.Rows = append(r.Rows, []string{fmt.Sprintf("%.1f", edges/e.number("seconds")/1e6), fmt.Sprintf("%.1f", edges/e.number("device_seconds")/1e6), fmt.Sprintf("%.0f", edges/batches),
			fmt.Sprintf("%.0f", e.number("inputs")/batches), fmt.Sprintf("%.2f", e.number("sent_bytes")/1e6), fmt.Sprintf("%.2f", e.number("block_bytes")/1e6)})
	}
	for _, e := range of(events, "summary") {
		if e.number("checked") > 0 && len(r.Rows) > 0 {
			return nil
		}
	}
	return errors.New("no mini-batch was compared with the host's")
}

func readSteps(events []event, r *result) error {
	r.Columns = []string{"model", "on", "step ms", "of it sampling", "device ms", "edges", "input rows", "loss"}
	for _, e := range of(events, "result") {
		ms := func(key string) string { return fmt.Sprintf("%.2f", 1e3*e.number(key)) }
		r.Rows = append(r.Rows, []string{e.text("model"), e.text("device"), ms("step_s"), ms("sample_s"), ms("device_s"), fmt.Sprintf("%.0f", e.number("sampled_edges")), fmt.Sprintf("%.0f", e.number("input_rows")), fmt.Sprintf("%.4f", e.number("loss"))})
	}
	if len(r.Rows) == 0 {
		return errors.New("it measured nothing")
	}
	return nil
}

func readFeeding(events []event, r *result) error {
	all := of(events, "summary")
	if len(all) != 1 {
		return fmt.Errorf("it printed %d summaries, expected one", len(all))
	}
	h, _ := all[0]["hanoi"].(map[string]any)
	e := event(h)
	busy := e.number("device_s")
	if busy <= 0 {
		return errors.New("the device measured no time")
	}
	r.Columns = []string{"epoch s", "device s", "busy", "waited for the disk s", "read GB", "batches"}
	r.Rows = [][]string{{fmt.Sprintf("%.2f", e.number("seconds")), fmt.Sprintf("%.2f", busy), fmt.Sprintf("%.2f (target .90)", busy/e.number("seconds")),
		fmt.Sprintf("%.2f", e.number("stall_s")), fmt.Sprintf("%.1f", e.number("bytes_read")/1e9), fmt.Sprintf("%.0f", e.number("batches"))}}
	return nil
}

// validOf is an epoch's validation accuracy, or MRR.
func validOf(e event) float64 {
	if ranks, ok := e["valid"].(map[string]any); ok {
		return event(ranks).number("mrr")
	}
	return e.number("valid_accuracy")
}

// readTraining shows a run's epochs. Where equal, their losses have to be those of the run before to the last bit; else, where there is
// one, within a thousandth. all holds the runs' losses by epoch.
func readTraining(all map[string][]float64, before string, equal bool) func([]event, *result) error {
	return func(events []event, r *result) error {
		r.Columns = []string{"epoch", "loss", "valid %", "seconds", "evaluation s", "device s", "idle s", "copies s", "drawing s", "waits", "batches", "replayed"}
		var losses []float64
		for _, e := range of(events, "epoch") {
			losses = append(losses, e.number("loss"))
			row := []string{fmt.Sprint(e.number("epoch")), fmt.Sprintf("%.6f", e.number("loss")), fmt.Sprintf("%.2f", 100*validOf(e))}
			for _, seconds := range []string{"seconds", "valid_seconds", "device_seconds", "device_idle_seconds", "device_copy_seconds", "device_sample_seconds"} {
				row = append(row, fmt.Sprintf("%.2f", e.number(seconds)))
			}
			for _, count := range []string{"device_waits", "batches", "replayed_batches"} {
				row = append(row, fmt.Sprintf("%.0f", e.number(count)))
			}
			r.Rows = append(r.Rows, row)
		}
		if len(losses) == 0 {
			return errors.New("it trained no epoch")
		}
		all[r.Name] = losses
		want, ok := all[before]
		same := func(a, b float64) bool { return a == b || !equal && math.Abs(a-b) <= 1e-3*math.Abs(b) }
		if ok && !slices.EqualFunc(losses, want, same) {
			return fmt.Errorf("losses %v, those of %q are %v: expected the same bits of the same seed on one device, a thousandth between devices", losses, before, want)
		}
		return nil
	}
}
