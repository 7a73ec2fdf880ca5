package runs

import (
	_ "embed"
	"fmt"
	"html/template"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/webpage"
)

//go:embed several.html
var severalText string

var severalTemplate = webpage.New("several", severalText)

// Several is the body of a page of several runs.
func Several(list []Run) template.HTML {
	rows, differ := compared(list)
	return body(severalTemplate(), map[string]any{"Runs": rows, "Settings": differ, "Charts": comparedCharts(list)})
}

func body(t *template.Template, data any) template.HTML {
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		panic(err) // a mistake in the template
	}
	return template.HTML(b.String()) //nolint:gosec // escaped by the template
}

// curve is a result of each epoch, over the epochs or the seconds at which they were trained.
func (r *Run) curve(scale float64, seconds bool, of func(r *metrics.Result) *float64) (points []webpage.Point) {
	at := map[int]float64{}
	for _, e := range r.Epochs {
		at[e.Epoch] = e.End
	}
	for i := range r.Results {
		v, x := of(&r.Results[i]), float64(r.Results[i].Epoch)
		if seconds {
			if x = r.Results[i].End; at[r.Results[i].Epoch] > 0 {
				x = at[r.Results[i].Epoch]
			}
		}
		if v != nil {
			points = append(points, webpage.Point{X: x, Y: scale * *v})
		}
	}
	return points
}

// comparedCharts are the curves of several runs: what they are judged by first.
func comparedCharts(list []Run) (charts []template.HTML) {
	add := func(title, x string, m *metric) {
		c := webpage.Lines{Title: title, X: x, Y: m.unit, Whole: x == "epoch"}
		for i := range list {
			c.Series = append(c.Series, webpage.Series{Name: list[i].Name, Color: i % webpage.Colors, Points: list[i].curve(m.scale, x == "seconds", m.of)})
		}
		if !c.Empty() {
			charts = append(charts, c.HTML())
		}
	}
	for _, m := range judged() {
		add("Validation: "+m.name, "epoch", &m)
		add("Validation: "+m.name+", by the time that it took", "seconds", &m)
	}
	add("Loss of training", "epoch", &metric{scale: 1, of: func(r *metrics.Result) *float64 { return r.Loss }})
	return charts
}

// comparedRun is a line of the table of runs.
type comparedRun struct {
	Name                string
	Link                template.URL
	Color               int
	Metric, Valid, Test string
	Best                bool // its validation is the best of those judged alike
	Epoch               string
	Epochs              int
	Seconds             string
	Read                string
	Settings            []string // of those that differ, in their order
}

// storeSetting is the store beside a run's settings.
const storeSetting = "store"

// compared makes the table of runs, and names the flags by which they differ.
func compared(list []Run) (rows []comparedRun, flags []string) {
	configs := make([]Settings, len(list))
	for i, r := range list {
		if r.Begin == nil {
			continue // an older run
		}
		if configs[i] = SettingsOf(r.Begin.Config); configs[i] != nil {
			configs[i][storeSetting] = r.Begin.Store
		}
	}
	names := differing(configs, "checkpoint_file", "checkpoint_every")
	for _, name := range names {
		if name != storeSetting {
			name = "--" + flagOf(name)
		}
		flags = append(flags, name)
	}
	best := map[string]int{} // by metric, the run
	for i := range list {
		r := &list[i]
		row := comparedRun{Name: r.Name, Link: r.Link, Color: i % webpage.Colors, Epochs: r.last(), Seconds: fmt.Sprintf("%.1f", r.seconds()),
			Read: command.FormatSize(r.read()), Metric: "unfinished"}
		if m := judge(r.End); m != nil {
			row.Metric, row.Valid, row.Test = m.name, m.text(m.valid(r.End)), m.text(m.test(r.End))
			if v := m.valid(r.End); v != nil {
				if k, ok := best[m.name]; !ok || m.better(*v, *m.valid(list[k].End)) {
					best[m.name] = i
				}
			}
			if r.End.BestEpoch > 0 {
				row.Epoch = strconv.Itoa(r.End.BestEpoch)
			}
		} else if r.End != nil {
			row.Metric = "not evaluated"
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
