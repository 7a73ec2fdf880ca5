package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/store/ingest"
)

// biasOptions ask for MariusGNN's Figures 6 and 8: accuracy against the Edge Permutation Bias of the
// order of examples, for several numbers of partitions p and of logical ones l, a quarter of them resident.
type biasOptions struct {
	data       string // folder of triples
	partitions []int
	epochs     int
	model      link.Config
	first      uint64
	seeds      uint64
	threads    int
	output     string // .svg, .png or .pdf; "": none
}

// biasPoint is one order, over seeds.
type biasPoint struct {
	Plan       string    `json:"plan"`
	Partitions int       `json:"partitions"`
	Buffer     int       `json:"buffer"`
	Logical    int       `json:"logical,omitempty"` // of comet
	MRR        []float64 `json:"mrr"`               // filtered, test, by seed
	Mean       float64   `json:"mean"`
	SD         float64   `json:"sd"`   // sample deviation; 0 for one seed
	Bias       float64   `json:"bias"` // mean over epochs and seeds; 0 in memory
	BytesEpoch int64     `json:"read_per_epoch"`
	Written    int64     `json:"written_per_epoch"`
}

// points lists the orders: everything in memory once, and for each p BETA and COMET with
// l from the fewest logical partitions, of which two fit in the buffer, to p.
func (o *biasOptions) points() []biasPoint {
	ps := []biasPoint{{Plan: "memory", Partitions: o.partitions[0], Buffer: o.partitions[0]}}
	for _, p := range o.partitions {
		c := p / 4
		ps = append(ps, biasPoint{Plan: "beta", Partitions: p, Buffer: c})
		for l := 2 * p / c; l <= p; l *= 2 {
			ps = append(ps, biasPoint{Plan: "comet", Partitions: p, Buffer: c, Logical: l})
		}
	}
	return ps
}

// run trains every point, prints the table and draws the plot.
func (o *biasOptions) run(ctx context.Context, asJSON bool) (err error) {
	for _, p := range o.partitions {
		if p < 8 || p%4 != 0 {
			return fmt.Errorf("-partitions: %d: expected multiples of 4 from 8 on: a quarter of them is resident, at least 2", p)
		}
	}
	if o.seeds < 1 || o.epochs < 1 {
		return fmt.Errorf("-seeds %d, -epochs %d: expected 1 or more", o.seeds, o.epochs)
	}
	work, err := os.MkdirTemp("", "gstore-accuracy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if !asJSON {
		fmt.Println("| plan | p | resident | l | bias | test MRR | read/epoch | written/epoch |")
		fmt.Println("|---|---|---|---|---|---|---|---|")
	}
	points := o.points()
	for i := range points {
		x := &points[i]
		if err := o.train(ctx, work, x); err != nil {
			return fmt.Errorf("plan %s of %d partitions: %w", x.Plan, x.Partitions, err)
		}
		if asJSON {
			if err := json.NewEncoder(os.Stdout).Encode(x); err != nil {
				return err
			}
			continue
		}
		logical := ""
		if x.Logical > 0 {
			logical = strconv.Itoa(x.Logical)
		}
		fmt.Printf("| %s | %d | %d | %s | %.3f | %.4f ± %.4f | %.1f MiB | %.1f MiB |\n", x.Plan, x.Partitions, x.Buffer, logical, x.Bias, x.Mean, x.SD,
			float64(x.BytesEpoch)/(1<<20), float64(x.Written)/(1<<20))
	}
	if o.output == "" {
		return nil
	}
	return drawBias(points, o.output)
}

// train runs a point once a seed; the partitioning has the run's seed too.
func (o *biasOptions) train(ctx context.Context, work string, x *biasPoint) error {
	for seed := o.first; seed < o.first+o.seeds; seed++ {
		dir := filepath.Join(work, fmt.Sprintf("%d-%d.gstore", x.Partitions, seed))
		if _, err := os.Stat(dir); err != nil {
			if err := makeStore(ctx, o.data, dir, ingest.Options{Partitions: x.Partitions, Seed: seed}); err != nil {
				return err
			}
		}
		c := o.model
		c.Seed, c.Threads, c.Epochs, c.EvalEvery, c.CheckpointEvery = seed, o.threads, o.epochs, o.epochs, "0"
		if c.Plan = x.Plan; x.Plan != "memory" {
			c.Buffer, c.Logical = x.Buffer, x.Logical
		}
		s, err := trainTriples(ctx, dir, c)
		if err != nil {
			return err
		}
		x.MRR = append(x.MRR, s.TestMRR)
		x.Bias += s.Bias / float64(o.seeds)
		x.BytesEpoch, x.Written = s.BytesRead/int64(o.epochs), s.BytesWritten/int64(o.epochs)
	}
	x.Mean, x.SD = meanSD(x.MRR)
	return nil
}

// withDeviation are points with error bars.
type withDeviation struct {
	plotter.XYs
	plotter.YErrors
}

// drawBias writes the plot: a curve over l for each p of comet, beta's points, and in memory as a line; bars are sample deviations.
func drawBias(points []biasPoint, output string) error {
	// Distinguishable in any kind of sight (Okabe and Ito).
	colors := []color.Color{color.RGBA{0, 114, 178, 255}, color.RGBA{230, 159, 0, 255}, color.RGBA{0, 158, 115, 255},
		color.RGBA{204, 121, 167, 255}, color.RGBA{86, 180, 233, 255}, color.RGBA{213, 94, 0, 255}}
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "Edge Permutation Bias", "test MRR, filtered"
	p.Add(plotter.NewGrid())
	var order []int
	curves, names := map[int]plotter.XYs{}, map[int][]string{}
	var betas plotter.XYs
	var betaNames []string
	top := 0.0
	var deviations withDeviation
	for _, x := range points {
		at := plotter.XY{X: x.Bias, Y: x.Mean}
		top = max(top, x.Bias)
		if x.SD > 0 && x.Plan != "memory" {
			deviations.XYs, deviations.YErrors = append(deviations.XYs, at), append(deviations.YErrors, struct{ Low, High float64 }{x.SD, x.SD})
		}
		switch x.Plan {
		case "comet":
			if curves[x.Partitions] == nil {
				order = append(order, x.Partitions)
			}
			curves[x.Partitions] = append(curves[x.Partitions], at)
			names[x.Partitions] = append(names[x.Partitions], fmt.Sprintf("l=%d", x.Logical))
		case "beta":
			betas, betaNames = append(betas, at), append(betaNames, fmt.Sprintf("p=%d", x.Partitions))
		}
	}
	label := func(xys plotter.XYs, texts []string, align text.XAlignment) error {
		l, err := plotter.NewLabels(plotter.XYLabels{XYs: xys, Labels: texts})
		if err != nil {
			return err
		}
		if l.Offset.X = vg.Points(5); align == text.XRight {
			l.Offset.X = vg.Points(-9) // a viewer's font may be wider than that of the measurement
		}
		for i := range l.TextStyle {
			l.TextStyle[i].XAlign, l.TextStyle[i].YAlign = align, text.YCenter
		}
		p.Add(l)
		return nil
	}
	if len(deviations.XYs) > 0 {
		bars, err := plotter.NewYErrorBars(deviations)
		if err != nil {
			return err
		}
		bars.Color = color.Gray{160}
		p.Add(bars)
	}
	for i, n := range order {
		line, dots, err := plotter.NewLinePoints(curves[n])
		if err != nil {
			return err
		}
		line.Color, dots.Color, dots.Shape, dots.Radius = colors[i%len(colors)], colors[i%len(colors)], draw.CircleGlyph{}, vg.Points(3)
		p.Add(line, dots)
		p.Legend.Add(fmt.Sprintf("COMET, p=%d", n), line, dots)
		align := []text.XAlignment{text.XLeft, text.XRight}[(len(order)-1-i)%2] // neighbours' points lie close
		if err := label(curves[n], names[n], align); err != nil {
			return err
		}
	}
	if len(betas) > 0 {
		dots, err := plotter.NewScatter(betas)
		if err != nil {
			return err
		}
		dots.Shape, dots.Radius, dots.Color = draw.CrossGlyph{}, vg.Points(4), color.Black
		p.Add(dots)
		p.Legend.Add("BETA", dots)
		if err := label(betas, betaNames, text.XLeft); err != nil {
			return err
		}
	}
	for _, x := range points {
		if x.Plan != "memory" {
			continue
		}
		line, err := plotter.NewLine(plotter.XYs{{X: 0, Y: x.Mean}, {X: top, Y: x.Mean}})
		if err != nil {
			return err
		}
		line.Dashes, line.Color = []vg.Length{vg.Points(4), vg.Points(3)}, color.Gray{96}
		p.Add(line)
		p.Legend.Add("in memory", line)
	}
	room := (p.Y.Max - p.Y.Min) / 12 // for labels and the legend
	p.Y.Min, p.Y.Max = p.Y.Min-room, p.Y.Max+room
	p.X.Min, p.X.Max = 0, max(top*1.08, .01)
	p.Legend.Left = true
	p.Legend.Padding = vg.Points(4)
	if err := p.Save(20*vg.Centimeter, 15*vg.Centimeter, output); err != nil {
		return fmt.Errorf("plot %s: %w", output, err)
	}
	return nil
}

// biasModel is DistMult or SAGE + DistMult.
func biasModel(name string) (link.Config, error) {
	switch strings.ToLower(name) {
	case "distmult":
		return link.Config{Preset: link.PresetMarius}, nil
	case "sage", "gat", "gcn":
		return link.Config{Preset: link.PresetMarius, Encoder: strings.ToLower(name)}, nil
	}
	return link.Config{}, fmt.Errorf("-model %q: expected distmult, sage, gcn or gat", name)
}
