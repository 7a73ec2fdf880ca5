package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
)

type reportOptions struct {
	output string
	title  string
}

// NewReport is the command gstore report.
func NewReport(e *command.Env) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Draw a run's metrics: loss and accuracy, the confusion matrix, bandwidth, who waited for whom; or several runs beside each other",
		Long: `Report reads the measurements that "gstore train --metrics FILE.jsonl" writes and draws
one HTML page, which needs neither a network nor a script. The page shows loss and
accuracy of every epoch, the confusion matrix of the best model, the bandwidth of the
disk, how busy training was, and what each step waited for.

Of several files, the page shows the runs beside each other: a table of their results
with the settings by which they differ, and the curves of loss and validation, over
epochs and over seconds.`,
		Example: "  gstore train STORE --plan hanoi --mem 1GiB --metrics run.jsonl\n  gstore report run.jsonl -o report.html\n  gstore report wide.jsonl narrow.jsonl -o compared.html",
		Args:    command.SomeArgs("FILE..."),
		RunE:    func(_ *cobra.Command, args []string) error { return runReport(e, args, o) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "report.html", "the page to write")
	cmd.Flags().StringVar(&o.title, "title", "", "headline (default: the file's name, or how many runs there are)")
	return cmd
}

func runReport(e *command.Env, paths []string, o reportOptions) error {
	files := make([]*metrics.File, len(paths))
	fields := map[string]any{"output": o.output}
	var epochs, steps, samples int
	for i, path := range paths {
		m, err := readMetrics(path)
		if err != nil {
			return err
		}
		files[i] = m
		epochs, steps, samples = epochs+len(m.Epochs), steps+len(m.Steps), samples+len(m.Samples)
	}
	var page []byte
	var err error
	if runs := named(files, paths); len(runs) > 1 {
		fields["runs"] = len(runs)
		page, err = renderComparison(runs, cmp.Or(o.title, fmt.Sprintf("%d runs", len(runs))))
	} else {
		page, err = renderReport(files[0], cmp.Or(o.title, filepath.Base(paths[0])))
	}
	if err != nil {
		return err
	}
	to, err := command.NewFile(o.output)
	if err != nil {
		return err
	}
	_, err = to.Write(page)
	if err := to.Finish(err); err != nil {
		return err
	}
	fields["epochs"], fields["steps"], fields["samples"] = epochs, steps, samples
	e.Event("summary", fields)
	if e.JSON {
		return nil
	}
	runs := ""
	if len(paths) > 1 {
		runs = fmt.Sprintf("%d runs, ", len(paths))
	}
	fmt.Fprintf(e.Told(), "%s: %s%d epochs, %d steps\n", o.output, runs, epochs, steps)
	return nil
}

// readMetrics reads a file of --metrics with an epoch at least.
func readMetrics(path string) (*metrics.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := metrics.Read(f)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case len(m.Steps) == 0 && len(m.Epochs) > 0:
		return nil, fmt.Errorf("%s: epochs without steps: this is what gstore train --json prints, not the file of --metrics", path)
	case len(m.Epochs) == 0:
		return nil, fmt.Errorf("%s: no epoch in it: the run wrote none, or this is not a file of --metrics", path)
	}
	return m, nil
}

// palette are colors that are told apart in any kind of sight (Okabe and Ito).
func palette() []color.RGBA {
	return []color.RGBA{{0, 114, 178, 255}, {230, 159, 0, 255}, {0, 158, 115, 255}, {213, 94, 0, 255}, {204, 121, 167, 255}, {86, 180, 233, 255}, {0, 0, 0, 255}}
}

// reportColors are the first of [palette].
func reportColors() (blue, orange, green color.Color) {
	p := palette()
	return p[0], p[1], p[2]
}

// reportPointsMax bounds the points of a curve; longer runs are averaged.
const reportPointsMax = 600

// renderReport makes the page.
func renderReport(m *metrics.File, title string) ([]byte, error) {
	bandwidth, utilisation := sampleCurves(m.Samples)
	var stall, wait, assemble plotter.XYs
	for i, s := range m.Steps {
		x := float64(i)
		stall = append(stall, plotter.XY{X: x, Y: s.Stall})
		wait = append(wait, plotter.XY{X: x, Y: s.WaitBuffers})
		assemble = append(assemble, plotter.XY{X: x, Y: s.Assemble})
	}
	blue, orange, green := reportColors()
	type curve = reportCurve
	charts := append(resultCharts(m.Results),
		reportFigure{Caption: "Read from disk", spec: reportChart{x: "seconds", y: "GB/s", curves: []curve{{"bandwidth", bandwidth, blue}}}},
		reportFigure{Caption: "Trainer utilisation: share of time with a macro-batch in hand", spec: reportChart{x: "seconds", y: "%", top: 100, curves: []curve{{"utilisation", utilisation, green}}}},
		reportFigure{Caption: "Waiting and assembly, by step", spec: reportChart{x: "step", y: "seconds", curves: []curve{
			{"trainer waits for disk", stall, orange}, {"disk waits for buffers", wait, blue}, {"assembly (in the background)", assemble, green}}}})
	if err := drawAll(charts); err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err := reportPage.Execute(&page, map[string]any{"Title": title, "Charts": charts, "Epochs": m.Epochs, "Rows": slices.ContainsFunc(m.Epochs, func(e metrics.Epoch) bool { return e.DeviceRows != nil }), "End": ending(m.End), "Confusion": confusionTables(m.Confusion)})
	return page.Bytes(), err
}

// drawAll draws charts.
func drawAll(charts []reportFigure) error {
	for i := range charts {
		svg, err := charts[i].spec.draw()
		if err != nil {
			return fmt.Errorf("report: %s: %w", charts[i].Caption, err)
		}
		charts[i].SVG = svg
	}
	return nil
}

// sampleCurves returns bandwidth in GB/s and utilisation in per cent over time.
func sampleCurves(samples []metrics.Sample) (bandwidth, utilisation plotter.XYs) {
	group := (len(samples) + reportPointsMax - 1) / reportPointsMax
	for lo := 0; lo < len(samples); lo += max(1, group) {
		hi := min(len(samples), lo+group)
		var b, u float64
		for i := lo; i < hi; i++ {
			b += samples[i].Bandwidth() / 1e9
			u += samples[i].Utilisation() * 100
		}
		x, n := samples[lo].At, float64(hi-lo)
		bandwidth = append(bandwidth, plotter.XY{X: x, Y: b / n})
		utilisation = append(utilisation, plotter.XY{X: x, Y: u / n})
	}
	return bandwidth, utilisation
}

// unbroken cuts a curve where samples are missing: where the next one is more than three times as far as is usual.
func unbroken(points plotter.XYs) (parts []plotter.XYs) {
	var gaps []float64
	for i := 1; i < len(points); i++ {
		gaps = append(gaps, points[i].X-points[i-1].X)
	}
	if len(gaps) == 0 {
		return []plotter.XYs{points}
	}
	usual := slices.Clone(gaps)
	slices.Sort(usual)
	from := 0
	for i, gap := range gaps {
		if gap > 3*usual[len(usual)/2] {
			parts, from = append(parts, points[from:i+1]), i+1
		}
	}
	return append(parts, points[from:])
}

type reportCurve struct {
	name   string
	points plotter.XYs
	color  color.Color
}

// reportFigure is a chart with its caption.
type reportFigure struct {
	Caption string
	SVG     template.HTML
	spec    reportChart
}

// reportChart is a chart of curves over a shared x axis; top fixes the y axis, 0 fits it; marks shows each point where they
// are few.
type reportChart struct {
	x, y   string
	top    float64
	curves []reportCurve
	marks  bool
	rising bool // curves end high
	fit    bool // the y axis begins where curves do, not at 0
	room   int  // names that the legend has room for; 0: a few
}

// marksMax is the most points that are marked.
const marksMax = 60

// draw renders the chart as an <svg> element.
func (c reportChart) draw() (template.HTML, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = c.x, c.y
	p.Add(plotter.NewGrid())
	for _, k := range c.curves {
		if len(k.points) == 0 {
			continue
		}
		for i, points := range unbroken(k.points) {
			line, err := plotter.NewLine(points)
			if err != nil {
				return "", err
			}
			line.Color, line.Width = k.color, vg.Points(1.2)
			p.Add(line)
			if len(c.curves) > 1 && i == 0 {
				p.Legend.Add(k.name, line)
			}
			if len(points) > 1 && (!c.marks || len(k.points) > marksMax) {
				continue
			}
			dots, err := plotter.NewScatter(points) // a line of one point is none
			if err != nil {
				return "", err
			}
			dots.Color, dots.Shape, dots.Radius = k.color, draw.CircleGlyph{}, vg.Points(2)
			p.Add(dots)
		}
	}
	// On the left: where a viewer's font is wider than ours, names run into free space, not out of
	// the picture; headroom keeps the curves off them.
	p.Legend.Top, p.Legend.Left, p.Legend.XOffs = true, true, vg.Points(6)
	if !c.fit {
		p.Y.Min = 0
	}
	if c.rising { // below, on the right, is room
		p.Legend.Top, p.Legend.Left, p.Legend.XOffs, p.Legend.YOffs = false, false, -vg.Points(6), vg.Points(6)
	} else if len(c.curves) > 1 {
		p.Y.Max *= max(1.4, 1+.09*float64(c.room))
	}
	if c.top > 0 {
		p.Y.Max = c.top
	}
	canvas := vgsvg.New(24*vg.Centimeter, 7*vg.Centimeter)
	const margin = vg.Centimeter / 2 // the last label of an axis reaches beyond it
	p.Draw(draw.Crop(draw.New(canvas), margin/2, -margin, 0, -margin))
	var b strings.Builder
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", err
	}
	svg := b.String()
	if i := strings.Index(svg, "<svg"); i >= 0 {
		svg = svg[i:] // an XML declaration has no place inside HTML
	}
	return template.HTML(svg), nil //nolint:gosec // drawn here, from numbers
}

// pageHead begins the template of a page, up to its headline.
const pageHead = `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
figure{margin:1.5rem 0}svg{max-width:100%;height:auto}
table{border-collapse:collapse;margin:1rem 0}caption{text-align:left;font-weight:bold}.words{text-align:left}.matrix,.runs{overflow-x:auto}.matrix th{max-width:6rem;overflow:hidden;text-overflow:ellipsis}.matrix th.words{max-width:16rem}th,td{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}.best{font-weight:bold}
</style></head><body>
<h1>{{.Title}}</h1>`

var reportPage = template.Must(template.New("report").Funcs(template.FuncMap{
	"mb":      func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) },
	"s":       func(s float64) string { return fmt.Sprintf("%.2f", s) },
	"percent": func(x float64) string { return fmt.Sprintf("%.1f", 100*x) },
	"sub":     func(a, b float64) float64 { return a - b },
}).Parse(pageHead + `
{{with .End}}<p>{{.}}</p>
{{end}}{{range .Charts}}<figure><figcaption>{{.Caption}}</figcaption>{{.SVG}}</figure>
{{end}}{{range .Confusion}}<div class="matrix"><table><caption>{{if .Mistakes}}What is mistaken for what most often, {{.Split}}{{else}}Confusion, {{.Split}}: rows are labels, columns what is predicted, colors shares of the row{{end}}</caption>
{{if .Mistakes}}<tr><th class="words">label</th><th class="words">predicted</th><th>nodes</th><th>% of the label</th></tr>
{{range .Mistakes}}<tr><td class="words">{{.Label}}</td><td class="words">{{.Predicted}}</td><td>{{.Nodes}}</td><td>{{.Share}}</td></tr>
{{end}}{{else}}<tr><th class="words">label</th>{{range .Classes}}<th title="{{.}}">{{.}}</th>{{end}}<th>all</th></tr>
{{range .Rows}}<tr><th class="words" title="{{.Label}}">{{.Label}}</th>{{range .Cells}}<td style="{{.Style}}" title="{{.Title}}">{{.Nodes}}</td>{{end}}<td>{{.Nodes}}</td></tr>
{{end}}{{end}}</table></div>
{{end}}<table><caption>Epochs</caption><tr><th>epoch</th><th>plan</th><th>engine</th><th>seconds</th><th>MB read</th><th>requests</th><th>training s</th><th>trainer waits s</th><th>disk waits s</th><th>assembly s</th>{{if .Rows}}<th>device keeps</th><th>rows there %</th><th>MB to device</th><th>MB saved</th>{{end}}</tr>
{{range .Epochs}}<tr><td>{{.Epoch}}</td><td>{{.Policy}}</td><td>{{.Engine}}</td><td>{{s (sub .End .Start)}}</td><td>{{mb .BytesRead}}</td><td>{{.Requests}}</td><td>{{s .Train}}</td><td>{{s .Stall}}</td><td>{{s .WaitBuffers}}</td><td>{{s .Assemble}}</td>{{with .DeviceRows}}<td>{{.Policy}}</td><td>{{percent .HitRate}}</td><td>{{mb .MovedBytes}}</td><td>{{mb .SavedBytes}}</td>{{end}}</tr>
{{end}}</table>
</body></html>
`))
