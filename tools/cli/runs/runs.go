// Package runs makes the pages of training runs, from what [metrics.Writer] wrote of them: of one run its quality and then
// its speed, of several the curves and settings beside each other. "gstore report" writes them to a file, "gstore
// serve" shows them.
package runs

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
)

// Run is a run and the name by which pages call it.
type Run struct {
	*metrics.File
	Name string
	Link template.URL // to its own page; "": there is none
}

// ErrNone marks files in which no epoch has ended yet.
var ErrNone = errors.New("no epoch in it")

// Read reads a file of --metrics with an epoch at least; it fails with [ErrNone] where there is none.
func Read(path string) (*metrics.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := metrics.Read(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(m.Steps) == 0 && len(m.Results) == 0 && len(m.Epochs) > 0:
		return nil, fmt.Errorf("%s: epochs without steps: this is what gstore train --json prints, not the file of --metrics", path)
	case len(m.Epochs)+len(m.Results) == 0:
		return nil, fmt.Errorf("%s: %w: the run wrote none, or this is not a file of --metrics", path, ErrNone)
	}
	return m, nil
}

// Files are the files of the runs of the store in dir: those that were recorded, by their numbers, and those that have none.
func Files(dir string) (recorded, unfinished []string, err error) {
	all, err := filepath.Glob(filepath.Join(dir, store.RunsDir, "*"+store.MetricsExtension))
	if err != nil {
		return nil, nil, err
	}
	numbers := map[string]uint64{}
	for _, path := range all {
		if n, err := strconv.ParseUint(stem(path), 10, 64); err == nil {
			recorded, numbers[path] = append(recorded, path), n
		} else {
			unfinished = append(unfinished, path)
		}
	}
	slices.SortFunc(recorded, func(a, b string) int { return cmp.Compare(numbers[a], numbers[b]) })
	return recorded, unfinished, nil
}

// Named names runs by their files, and by their whole paths where two files are of one name.
func Named(files []*metrics.File, paths []string) []Run {
	list, seen := make([]Run, len(files)), map[string]int{}
	for i, path := range paths {
		list[i] = Run{File: files[i], Name: name(path)}
		seen[list[i].Name]++
	}
	for i, path := range paths {
		if seen[list[i].Name] > 1 {
			list[i].Name = path
		}
	}
	return list
}

// name is what a file's run is called.
func name(path string) string {
	n := stem(path)
	if filepath.Base(filepath.Dir(path)) == store.RunsDir {
		return Called(n)
	}
	return n
}

func stem(path string) string {
	return strings.TrimSuffix(filepath.Base(path), store.MetricsExtension)
}

// Called is what people call a run of a store by the name of its file, without extension: its number, or the name of a checkpoint beside
// which an unfinished run lies.
func Called(name string) string {
	if _, err := strconv.ParseUint(name, 10, 64); err == nil {
		return "run " + name
	}
	if of, ok := strings.CutPrefix(name, "last"); ok {
		if name = "unfinished run"; of != "" {
			name += " of " + strings.TrimPrefix(of, "-")
		}
	}
	return name
}

// metric is what runs of a kind are judged by.
type metric struct {
	name        string
	scale       float64 // of what a chart shows
	unit        string
	less        bool // is better
	of          func(r *metrics.Result) *float64
	valid, test func(e *metrics.End) *float64
	format      func(x float64) string
}

// judged are the metrics by which runs are compared.
func judged() []metric {
	ranks := func(x float64) string { return fmt.Sprintf("%.4f", x) }
	return []metric{
		{name: "accuracy", scale: 100, unit: "%", format: command.FormatPercent, of: func(r *metrics.Result) *float64 { return r.ValidAccuracy },
			valid: func(e *metrics.End) *float64 { return e.ValidAccuracy }, test: func(e *metrics.End) *float64 { return e.TestAccuracy }},
		{name: "micro F1", scale: 100, unit: "%", format: command.FormatPercent, of: func(r *metrics.Result) *float64 { return r.ValidMicroF1 },
			valid: func(e *metrics.End) *float64 { return e.ValidMicroF1 }, test: func(e *metrics.End) *float64 { return e.TestMicroF1 }},
		{name: "MAE", scale: 1, less: true, format: command.FormatNumber, of: func(r *metrics.Result) *float64 { return r.ValidMAE },
			valid: func(e *metrics.End) *float64 { return e.ValidMAE }, test: func(e *metrics.End) *float64 { return e.TestMAE }},
		{name: "ROC AUC", scale: 1, format: ranks, of: func(r *metrics.Result) *float64 { return r.ValidAUC },
			valid: func(e *metrics.End) *float64 { return e.ValidAUC }, test: func(e *metrics.End) *float64 { return e.TestAUC }},
		{name: "average precision", scale: 1, format: ranks, of: func(r *metrics.Result) *float64 { return r.ValidAP },
			valid: func(e *metrics.End) *float64 { return e.ValidAP }, test: func(e *metrics.End) *float64 { return e.TestAP }},
		{name: "MAP@k", scale: 1, format: ranks, of: func(r *metrics.Result) *float64 { return r.ValidMAP },
			valid: func(e *metrics.End) *float64 { return e.ValidMAP }, test: func(e *metrics.End) *float64 { return e.TestMAP }},
		{name: "MRR", scale: 1, format: ranks, of: func(r *metrics.Result) *float64 { return r.ValidMRR },
			valid: func(e *metrics.End) *float64 { return e.ValidMRR }, test: func(e *metrics.End) *float64 { return e.TestMRR }},
	}
}

// text is a value as people read it, "" of none.
func (m *metric) text(x *float64) string {
	if x == nil {
		return ""
	}
	return m.format(*x)
}

func (m *metric) better(a, b float64) bool {
	if m.less {
		return a < b
	}
	return a > b
}

// judge is the metric that a run's result has, nil of none.
func judge(e *metrics.End) *metric {
	if e == nil {
		return nil
	}
	for _, m := range judged() {
		if m.valid(e) != nil || m.test(e) != nil {
			return &m
		}
	}
	return nil
}

// last is a run's last epoch, seconds when it was trained, read what all epochs read. Runs on a graph in memory have results alone.
func (r *Run) last() (epoch int) {
	if n := len(r.Epochs); n > 0 {
		epoch = r.Epochs[n-1].Epoch
	}
	if n := len(r.Results); n > 0 {
		epoch = max(epoch, r.Results[n-1].Epoch)
	}
	return epoch
}

func (r *Run) seconds() float64 {
	if n := len(r.Epochs); n > 0 {
		return r.Epochs[n-1].End
	}
	return r.Results[len(r.Results)-1].End
}

func (r *Run) read() (bytes int64) {
	for _, e := range r.Epochs {
		bytes += e.BytesRead
	}
	return bytes
}
