package runs

import (
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"slices"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/webpage"
)

//go:embed one.html
var oneText string

var oneTemplate = webpage.New("one", oneText)

// figure is a number with its name.
type figure struct{ Name, Value string }

// One is the body of a page of one run: what it came to, what it mistakes, and how fast it was.
func One(m *metrics.File) template.HTML {
	rows := slices.ContainsFunc(m.Epochs, func(e metrics.Epoch) bool { return e.DeviceRows != nil })
	return body(oneTemplate(), map[string]any{"Figures": figures(m), "Quality": quality(m), "Confusion": Confusion(m.Confusion, noLink), "Time": whereTime(m),
		"Speed": speed(m), "Plan": residency(m), "Epochs": epochRows(m.Epochs), "Rows": rows, "Settings": settingRows(m.Begin)})
}

// figures are a run's numbers at a glance.
func figures(m *metrics.File) (list []figure) {
	add := func(name, value string) {
		if value != "" {
			list = append(list, figure{name, value})
		}
	}
	r := Run{File: m}
	if j := judge(m.End); j != nil {
		add("test "+j.name, j.text(j.test(m.End)))
		add("validation "+j.name, j.text(j.valid(m.End)))
		if m.End.TestHits10 != nil {
			add("test hits@10", fmt.Sprintf("%.4f", *m.End.TestHits10))
		}
	}
	switch {
	case m.End == nil:
		add("epochs until now", fmt.Sprint(r.last()))
	case m.End.BestEpoch > 0:
		add("best epoch", fmt.Sprintf("%d of %d", m.End.BestEpoch, r.last()))
	default:
		add("epochs", fmt.Sprint(r.last()))
	}
	if s := r.seconds(); s > 0 {
		add("to the last epoch's end", fmt.Sprintf("%.1f s", s))
	}
	if bytes := r.read(); bytes > 0 {
		add("read from disk", command.FormatSize(bytes))
	}
	if n := len(m.Epochs); n > 0 {
		add("plan", m.Epochs[n-1].Policy)
	}
	return list
}

// quality are the curves of what epochs came to, what the run is judged by first.
func quality(m *metrics.File) (charts []template.HTML) {
	r := Run{File: m}
	add := func(title, unit string, scale float64, zero bool, series ...webpage.Series) {
		c := webpage.Lines{Title: title, X: "epoch", Y: unit, Whole: true, Zero: zero, Series: series}
		if scale == 100 {
			c.Top = 100
		}
		if m.End != nil {
			c.Mark, c.MarkName = float64(m.End.BestEpoch), "the best epoch, whose model is kept"
		}
		if !c.Empty() {
			charts = append(charts, c.HTML())
		}
	}
	of := func(name string, color int, scale float64, value func(r *metrics.Result) *float64) webpage.Series {
		return webpage.Series{Name: name, Color: color, Points: r.curve(scale, false, value)}
	}
	add("Accuracy", "%", 100, false, of("training", 0, 100, func(r *metrics.Result) *float64 { return r.TrainAccuracy }),
		of("validation", 1, 100, func(r *metrics.Result) *float64 { return r.ValidAccuracy }),
		of("test", 2, 100, func(r *metrics.Result) *float64 { return r.TestAccuracy }))
	add("Micro-averaged F1", "%", 100, false, of("validation", 1, 100, func(r *metrics.Result) *float64 { return r.ValidMicroF1 }),
		of("test", 2, 100, func(r *metrics.Result) *float64 { return r.TestMicroF1 }))
	add("Mean absolute error", "", 1, false, of("training", 0, 1, func(r *metrics.Result) *float64 { return r.TrainMAE }),
		of("validation", 1, 1, func(r *metrics.Result) *float64 { return r.ValidMAE }),
		of("test", 2, 1, func(r *metrics.Result) *float64 { return r.TestMAE }))
	add("Filtered ranks of validation", "", 1, false, of("MRR", 0, 1, func(r *metrics.Result) *float64 { return r.ValidMRR }),
		of("hits@10", 1, 1, func(r *metrics.Result) *float64 { return r.ValidHits10 }))
	for _, j := range judged() {
		switch j.name {
		case "ROC AUC", "average precision", "MAP@k":
			add(j.name, "", 1, false, of("validation", 1, 1, j.of))
		}
	}
	add("Loss of training", "", 1, true, of("training", 0, 1, func(r *metrics.Result) *float64 { return r.Loss }))
	return charts
}

// epochRow is a line of the table of epochs.
type epochRow struct {
	metrics.Epoch
	Seconds, MB, TrainS, StallS, WaitS, AssembleS string
	Keeps, HitPercent, MovedMB, SavedMB           string
}

func epochRows(epochs []metrics.Epoch) (rows []epochRow) {
	s := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	mb := func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
	for _, e := range epochs {
		r := epochRow{Epoch: e, Seconds: s(e.End - e.Start), MB: mb(e.BytesRead), TrainS: s(e.Train), StallS: s(e.Stall), WaitS: s(e.WaitBuffers), AssembleS: s(e.Assemble)}
		if d := e.DeviceRows; d != nil {
			r.Keeps, r.HitPercent, r.MovedMB, r.SavedMB = string(d.Policy), fmt.Sprintf("%.1f", 100*d.HitRate()), mb(d.MovedBytes), mb(d.SavedBytes)
		}
		rows = append(rows, r)
	}
	return rows
}

// settingRows are the settings that a run had, by their flags.
func settingRows(b *metrics.Begin) (list []figure) {
	if b == nil {
		return nil
	}
	s := SettingsOf(b.Config)
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if text := s.text(name); text != "" {
			list = append(list, figure{flagOf(name), text})
		}
	}
	return list
}
