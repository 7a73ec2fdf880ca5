package predict

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	opts "github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// reasonWriter writes reasons: for people, as rows, or as a picture.
type reasonWriter struct {
	p     *prediction
	to    io.Writer
	file  *command.File // nil: standard output, or rows have it
	rows  *rows         // of the formats of rows; else nil
	n     int64         // nodes
	write func(w *reasons) error
}

// openReasons begins the output.
func (p *prediction) openReasons() (*reasonWriter, error) {
	w := &reasonWriter{p: p, to: p.env.Stdout}
	if p.format != formatTable && p.format != formatSVG || p.env.JSON && p.out == "" {
		r, err := p.open([]column{{"node", words, 10}, {"class", words, 8}, {"says", numbers, 8}, {"from", numbers, 8}, {"part", words, 7}, {"name", words, 20},
			{"source", words, 10}, {"target", words, 10}, {"share", numbers, 8}, {"own", numbers, 8}})
		w.rows = r
		w.write = w.asRows
		return w, err
	}
	if p.out != "" {
		f, err := command.NewFile(p.out)
		if err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		w.file, w.to = f, f
	}
	if w.write = w.asText; p.format == formatSVG {
		w.write = w.asPicture
	}
	return w, nil
}

// end completes the output, or removes it where err says that it failed.
func (w *reasonWriter) end(err error) error {
	switch {
	case w.rows != nil:
		return w.rows.end(err)
	case w.file != nil:
		return w.file.Finish(err)
	}
	return err
}

// asRows writes a row for each feature and each edge that has a share.
func (w *reasonWriter) asRows(x *reasons) error {
	w.n++
	f32 := func(v float64) float32 { return float32(v) }
	for _, f := range x.features {
		if err := w.rows.add(x.node, x.class, f32(x.Says), f32(x.Silent), "feature", f.name, "", "", f32(f.Share()), f32(f.Own)); err != nil {
			return err
		}
	}
	for _, e := range x.edges {
		if err := w.rows.add(x.node, x.class, f32(x.Says), f32(x.Alone), "edge", e.relation, e.from, e.to, f32(e.Edge.Share), float32(0)); err != nil {
			return err
		}
	}
	return nil
}

// asText writes the largest shares for people.
func (w *reasonWriter) asText(x *reasons) error {
	var b strings.Builder
	if w.n++; w.n > 1 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "%s: %s\n", x.node, x.what())
	others := "its own alone"
	if n := len(x.Nodes) - 1; n > 0 {
		others = fmt.Sprintf("its own and those of %s around it", opts.Count(n, "node"))
	}
	fmt.Fprintf(&b, "\nfeatures, %s, move it from %s, where all are 0, by %s:\n", others, shown(x.Silent), signed(x.Says-x.Silent))
	top := w.p.top
	wide := 0
	for _, f := range x.features[:min(top, len(x.features))] {
		wide = max(wide, len([]rune(f.name)))
	}
	for _, f := range x.features[:min(top, len(x.features))] {
		line := fmt.Sprintf("  %8s  %-*s", signed(f.Share()), wide, f.name)
		if f.value != "" {
			line += "  " + f.value
		}
		if f.Others != 0 && f.Own != 0 {
			line += fmt.Sprintf("  (its own %s)", signed(f.Own))
		} else if f.Own == 0 {
			line += "  (of its neighbours)"
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if n := len(x.features) - top; n > 0 {
		sum := 0.
		for _, f := range x.features[top:] {
			sum += f.Share()
		}
		fmt.Fprintf(&b, "  %8s  %s\n", signed(sum), opts.Count(n, "other"))
	}
	if of := byColumn(x); len(of) > 1 {
		fmt.Fprintf(&b, "  by column: %s\n", strings.Join(of[:min(len(of), columnsShown)], ", "))
	}
	if len(x.Edges) == 0 {
		fmt.Fprintf(&b, "\nno edge leads to it.\n")
	} else {
		fmt.Fprintf(&b, "\nwhat comes along %s moves it from %s, where nothing does, by %s:\n", opts.Count(len(x.Edges), "edge"), shown(x.Alone), signed(x.Says-x.Alone))
		for _, e := range x.edges[:min(top, len(x.edges))] {
			line := fmt.Sprintf("  %8s  %s → %s  %s", signed(e.Edge.Share), e.from, e.to, e.relation)
			if e.Count > 1 {
				line += fmt.Sprintf("  (%d edges)", e.Count)
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		if n := len(x.edges) - top; n > 0 {
			sum := 0.
			for _, e := range x.edges[top:] {
				sum += e.Edge.Share
			}
			fmt.Fprintf(&b, "  %8s  %s\n", signed(sum), opts.Count(n, "other"))
		}
	}
	if gap := max(math.Abs(x.FeatureGap), math.Abs(x.EdgeGap)); gap > .02*max(math.Abs(x.Says-x.Silent), math.Abs(x.Says-x.Alone))+1e-3 {
		fmt.Fprintf(&b, "\nthe shares miss their sum by %s, after %d steps\n", shown(gap), x.Steps)
	}
	_, err := io.WriteString(w.to, b.String())
	return err
}

// columnsShown is how many columns' shares are told.
const columnsShown = 6

// byColumn are the shares of all features of each column, the largest first.
func byColumn(x *reasons) (of []string) {
	sums := map[string]float64{}
	var columns []string
	for _, f := range x.features {
		if _, ok := sums[f.Column]; !ok {
			columns = append(columns, f.Column)
		}
		sums[f.Column] += f.Share()
	}
	slices.SortStableFunc(columns, func(a, b string) int { return cmp.Compare(math.Abs(sums[b]), math.Abs(sums[a])) })
	for _, c := range columns {
		of = append(of, fmt.Sprintf("%s %s", strings.TrimSuffix(c, store.NodeSuffix), signed(sums[c])))
	}
	return of
}
