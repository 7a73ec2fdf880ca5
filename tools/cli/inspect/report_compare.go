package inspect

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
)

// measured is a run and the name by which a page of several calls it.
type measured struct {
	*metrics.File
	name string
}

// named names runs by their files, and by their whole paths where two files are of one name.
func named(files []*metrics.File, paths []string) []measured {
	runs, seen := make([]measured, len(files)), map[string]int{}
	for i, path := range paths {
		runs[i] = measured{files[i], strings.TrimSuffix(filepath.Base(path), ".jsonl")}
		seen[runs[i].name]++
	}
	for i, path := range paths {
		if seen[runs[i].name] > 1 {
			runs[i].name = path
		}
	}
	return runs
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

// metricsCompared are those by which runs are compared.
func metricsCompared() []metric {
	ranks := func(x float64) string { return fmt.Sprintf("%.4f", x) }
	return []metric{
		{name: "accuracy", scale: 100, unit: "%", format: command.FormatPercent, of: func(r *metrics.Result) *float64 { return r.ValidAccuracy },
			valid: func(e *metrics.End) *float64 { return e.ValidAccuracy }, test: func(e *metrics.End) *float64 { return e.TestAccuracy }},
		{name: "micro F1", scale: 100, unit: "%", format: command.FormatPercent, of: func(r *metrics.Result) *float64 { return r.ValidMicroF1 },
			valid: func(e *metrics.End) *float64 { return e.ValidMicroF1 }, test: func(e *metrics.End) *float64 { return e.TestMicroF1 }},
		{name: "MAE", scale: 1, less: true, format: command.FormatNumber, of: func(r *metrics.Result) *float64 { return r.ValidMAE },
			valid: func(e *metrics.End) *float64 { return e.ValidMAE }, test: func(e *metrics.End) *float64 { return e.TestMAE }},
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

// seconds is when a run's last epoch was trained, read what its epochs read.
func (m *measured) seconds() float64 { return m.Epochs[len(m.Epochs)-1].End }

func (m *measured) read() (bytes int64) {
	for _, e := range m.Epochs {
		bytes += e.BytesRead
	}
	return bytes
}

// curve is a result of each epoch, over the epochs or the seconds at which they were trained.
func (m *measured) curve(scale float64, seconds bool, of func(r *metrics.Result) *float64) (points plotter.XYs) {
	at := map[int]float64{}
	for _, e := range m.Epochs {
		at[e.Epoch] = e.End
	}
	for i := range m.Results {
		r := &m.Results[i]
		v, x := of(r), float64(r.Epoch)
		if seconds {
			x = at[r.Epoch]
		}
		if v != nil {
			points = append(points, plotter.XY{X: x, Y: scale * *v})
		}
	}
	return points
}

// runColor tells run i apart; of many, colors come again.
func runColor(i int) color.RGBA {
	p := palette()
	return p[i%len(p)]
}

// comparedCharts are the curves of several runs.
func comparedCharts(runs []measured) (charts []reportFigure) {
	add := func(caption, x string, m *metric, rising bool) {
		c := reportChart{x: x, y: m.unit, marks: true, rising: rising, fit: rising, room: len(runs)}
		found := false
		for i := range runs {
			points := runs[i].curve(m.scale, x == "seconds", m.of)
			found = found || len(points) > 0
			c.curves = append(c.curves, reportCurve{runs[i].name, points, runColor(i)})
		}
		if found {
			charts = append(charts, reportFigure{Caption: caption, spec: c})
		}
	}
	add("Loss of training", "epoch", &metric{scale: 1, unit: "loss", of: func(r *metrics.Result) *float64 { return r.Loss }}, false)
	for _, m := range metricsCompared() {
		add("Validation: "+m.name, "epoch", &m, !m.less)
		add("Validation: "+m.name+", by the time that it took", "seconds", &m, !m.less)
	}
	return charts
}

// comparedRun is a line of the table of runs.
type comparedRun struct {
	Name                string
	Color               template.CSS
	Metric, Valid, Test string
	Best                bool // its validation is the best of those judged alike
	Epoch               string
	Epochs              int
	Seconds             string
	Read                string
	Settings            []string // of those that differ, in their order
}

// comparedRuns makes the table of runs, and names the flags by which they differ.
func comparedRuns(runs []measured) (rows []comparedRun, flags []string) {
	configs := make([]settings, len(runs))
	for i, r := range runs {
		if r.Begin == nil {
			continue // an older run
		}
		if configs[i] = settingsOf(r.Begin.Config); configs[i] != nil {
			configs[i]["store"] = r.Begin.Store
		}
	}
	names := differing(configs, "checkpoint_file", "checkpoint_every")
	for _, name := range names {
		flags = append(flags, flagOf(name))
	}
	best := map[string]int{} // by metric, the run
	for i := range runs {
		r := &runs[i]
		row := comparedRun{Name: r.name, Epochs: r.Epochs[len(r.Epochs)-1].Epoch, Seconds: fmt.Sprintf("%.1f", r.seconds()), Read: command.FormatSize(r.read()), Metric: "unfinished"}
		c := runColor(i)
		row.Color = template.CSS(fmt.Sprintf("color:rgb(%d,%d,%d)", c.R, c.G, c.B)) //nolint:gosec // numbers
		for _, m := range metricsCompared() {
			if r.End == nil || m.valid(r.End) == nil && m.test(r.End) == nil {
				continue
			}
			row.Metric, row.Valid, row.Test = m.name, m.text(m.valid(r.End)), m.text(m.test(r.End))
			if v := m.valid(r.End); v != nil {
				if k, ok := best[m.name]; !ok || m.better(*v, *m.valid(runs[k].End)) {
					best[m.name] = i
				}
			}
			if r.End.BestEpoch > 0 {
				row.Epoch = strconv.Itoa(r.End.BestEpoch)
			}
		}
		for _, name := range names {
			row.Settings = append(row.Settings, configs[i].shown(name))
		}
		rows = append(rows, row)
	}
	for _, i := range best {
		rows[i].Best = true
	}
	return rows, flags
}

// renderComparison makes the page of several runs.
func renderComparison(runs []measured, title string) ([]byte, error) {
	charts := comparedCharts(runs)
	if err := drawAll(charts); err != nil {
		return nil, err
	}
	rows, differ := comparedRuns(runs)
	var page bytes.Buffer
	err := comparisonPage.Execute(&page, map[string]any{"Title": title, "Charts": charts, "Runs": rows, "Settings": differ})
	return page.Bytes(), err
}

var comparisonPage = template.Must(template.New("comparison").Parse(pageHead + `
<div class="runs"><table><caption>Runs{{if .Settings}}, with the settings by which they differ{{end}}</caption>
<tr><th class="words">run</th><th class="words">judged by</th><th>validation</th><th>test</th><th>of epoch</th><th>epochs</th><th>seconds</th><th>read</th>{{range .Settings}}<th>{{.}}</th>{{end}}</tr>
{{range .Runs}}<tr{{if .Best}} class="best"{{end}}><td class="words"><span style="{{.Color}}">■</span> {{.Name}}</td><td class="words">{{.Metric}}</td><td>{{.Valid}}</td><td>{{.Test}}</td><td>{{.Epoch}}</td><td>{{.Epochs}}</td><td>{{.Seconds}}</td><td>{{.Read}}</td>{{range .Settings}}<td>{{.}}</td>{{end}}</tr>
{{end}}</table></div>
{{range .Charts}}<figure><figcaption>{{.Caption}}</figcaption>{{.SVG}}</figure>
{{end}}</body></html>
`))
