package runs

import (
	"fmt"
	"html/template"
	"slices"

	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/webpage"
)

// whereTime says what a run's time went into.
func whereTime(m *metrics.File) template.HTML {
	if len(m.Epochs) == 0 {
		return ""
	}
	var train, stall, within float64
	for _, e := range m.Epochs {
		train, stall, within = train+e.Train, stall+e.Stall, within+e.End-e.Start
	}
	total := m.Epochs[len(m.Epochs)-1].End
	s := webpage.Shares{Title: "Where the time went, to the last epoch's end"}
	add := func(name string, color int, seconds float64) {
		if seconds > total/1000 {
			s.Parts = append(s.Parts, webpage.Part{Name: name, Color: color, Value: seconds, Text: fmt.Sprintf("%.2f s", seconds)})
		}
	}
	add("training", 0, train)
	add("waiting for the disk", 3, stall)
	add("else within epochs", 5, within-train-stall)
	add("evaluation and what is done between epochs", 1, total-within)
	return s.HTML()
}

// matters is the share of an epoch from which on a wait is worth a chart.
const matters = .01

// fewSamples are too few for a curve.
const fewSamples = 8

// speed are the charts of a run's speed, those that say something.
func speed(m *metrics.File) (charts []template.HTML) {
	add := func(c webpage.Lines) {
		if !c.Empty() {
			charts = append(charts, c.HTML())
		}
	}
	var waited, read, within float64
	for _, e := range m.Epochs {
		waited, read, within = waited+e.Stall, read+float64(e.BytesRead), within+e.End-e.Start
	}
	if waited > matters*within {
		var stall, wait, assemble []webpage.Point
		for i, s := range m.Steps {
			x := float64(i + 1)
			stall = append(stall, webpage.Point{X: x, Y: s.Stall})
			wait = append(wait, webpage.Point{X: x, Y: s.WaitBuffers})
			assemble = append(assemble, webpage.Point{X: x, Y: s.Assemble})
		}
		add(webpage.Lines{Title: "Waiting, by step of all epochs", X: "step", Y: "seconds", Whole: true, Zero: true, Series: []webpage.Series{
			{Name: "training waits for the disk", Color: 3, Points: stall}, {Name: "the disk waits for room", Color: 0, Points: wait},
			{Name: "assembly, in the background", Color: 2, Points: assemble}}})
	}
	if read > 0 && len(m.Samples) >= fewSamples {
		var bandwidth, busy []webpage.Point
		for i := range m.Samples {
			s := &m.Samples[i]
			bandwidth = append(bandwidth, webpage.Point{X: s.At, Y: s.Bandwidth() / 1e6})
			busy = append(busy, webpage.Point{X: s.At, Y: 100 * s.Utilisation()})
		}
		add(webpage.Lines{Title: "Read from disk", X: "seconds", Y: "MB/s", Zero: true, Series: []webpage.Series{{Color: 0, Points: bandwidth}}})
		if waited > matters*within {
			add(webpage.Lines{Title: "Training has a macro-batch in hand", X: "seconds", Y: "%", Zero: true, Top: 100, Series: []webpage.Series{{Color: 2, Points: busy}}})
		}
	}
	device := func(name string, color int, value func(r *metrics.Result) float64) webpage.Series {
		s := webpage.Series{Name: name, Color: color}
		for i := range m.Results {
			if v := value(&m.Results[i]); v > 0 {
				s.Points = append(s.Points, webpage.Point{X: float64(m.Results[i].Epoch), Y: v})
			}
		}
		return s
	}
	add(webpage.Lines{Title: "GPU", X: "epoch", Y: "seconds", Whole: true, Zero: true, Series: []webpage.Series{
		device("mini-batches", 0, func(r *metrics.Result) float64 { return r.DeviceSeconds }),
		device("idle", 1, func(r *metrics.Result) float64 { return r.DeviceIdleSeconds }),
		device("copies of partitions, beside both", 2, func(r *metrics.Result) float64 { return r.DeviceCopySeconds })}})
	return charts
}

// Of larger plans the picture of partitions in memory would have cells that nobody sees.
const (
	drawnSteps      = 400
	drawnPartitions = 256
)

// residency draws which partitions were in memory at each step of the last epoch that the file has steps of, and which of them were read for it.
func residency(m *metrics.File) template.HTML {
	if len(m.Steps) == 0 {
		return ""
	}
	last := m.Steps[len(m.Steps)-1].Epoch
	steps := slices.DeleteFunc(slices.Clone(m.Steps), func(s metrics.Step) bool { return s.Epoch != last })
	if len(steps) < 2 || len(steps) > drawnSteps {
		return ""
	}
	g := webpage.Grid{Title: fmt.Sprintf("Partitions in memory, step by step, of epoch %d", last), X: "step", Y: "partitions", Columns: len(steps), First: 0,
		Legend: []webpage.Key{{Class: "loaded", Name: "read for this step"}, {Class: "kept", Name: "in memory from before"}}}
	kept, read := 0, 0
	for i, s := range steps {
		for _, p := range s.Partitions {
			g.Rows = max(g.Rows, p+1)
			c := webpage.Cell{Row: p, Column: i, Class: "kept", Title: fmt.Sprintf("partition %d in step %d", p, s.Step)}
			if slices.Contains(s.Loads, p) {
				c.Class, c.Title = "loaded", c.Title+", read for it"
				read++
			} else {
				kept++
			}
			g.Cells = append(g.Cells, c)
		}
	}
	if g.Rows < 2 || g.Rows > drawnPartitions {
		return ""
	}
	g.Says = fmt.Sprintf("%d steps, %d partitions: %d cells are read, %d are in memory from before", len(steps), g.Rows, read, kept)
	g.Note = fmt.Sprintf("%d partitions are read, %d stay from one step to the next.", read, kept)
	return g.HTML()
}
