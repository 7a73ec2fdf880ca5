package serve

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/stats"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/webpage"
)

// overview is what a version is like. It is counted once, when a page is first asked for.
type overview struct {
	begin   sync.Once
	ready   chan struct{}
	err     error
	buckets *stats.Buckets
	degrees stats.Histogram
	classes *stats.Classes // nil: of labels that are no classes
}

// bucketCells is how many rows and columns the map of edge buckets has at most.
const bucketCells = 48

// count reads what there is to count: directories of stripes, degrees, which are in memory, and labels, a few bytes a node.
func (o *overview) count(ctx context.Context, x *state) (err error) {
	if o.buckets, err = stats.BucketsOf(ctx, x.st, bucketCells); err != nil {
		return err
	}
	for v := range store.NodeID(x.st.Manifest().Nodes) {
		if v%(1<<20) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		o.degrees.Add(uint64(x.lists.Degree(v)))
	}
	o.classes, err = stats.ClassesOf(ctx, x.st)
	return err
}

// pageWait is how long a page waits for what is counted or asked for it; then it says so.
const pageWait = time.Second

// readySoon waits a moment for what is done once in the background, and reports whether it is there.
func readySoon(ctx context.Context, ready <-chan struct{}) bool {
	wait := time.NewTimer(pageWait)
	defer wait.Stop()
	select {
	case <-ready:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// background does something once for a state, which stays open meanwhile.
func (s *server) background(x *state, once *sync.Once, ready chan struct{}, do func(ctx context.Context)) {
	once.Do(func() {
		x.requests.Add(1)
		go func() {
			defer x.requests.Done()
			defer close(ready)
			do(s.life)
		}()
	})
}

// overviewOnPage is the overview for people; Counting says that some of it is not there yet.
type overviewOnPage struct {
	Buckets, Degrees, Sizes, Diagram template.HTML
	Classes                          []classOnPage
	MoreClasses                      int
	Unlabeled                        uint64
	Versions                         []versionOnPage
	Counting                         bool
}

type classOnPage struct {
	bar
	Splits []uint64
}

type versionOnPage struct {
	store.VersionInfo
	Size, When string
	Served     bool
}

// listedClasses is how many classes a page lists.
const listedClasses = 20

func (s *server) overviewOnPage(ctx context.Context, x *state) (*overviewOnPage, error) {
	d := &overviewOnPage{Sizes: sizes(x.st), Diagram: diagram(&x.st.Manifest().Schema)}
	h, err := store.ReadHistory(ctx, s.dir, store.Options{})
	if err != nil {
		return nil, err
	}
	for _, v := range slices.Backward(h.Versions) {
		d.Versions = append(d.Versions, versionOnPage{v, command.FormatSize(v.Bytes), v.Created.UTC().Format("2006-01-02 15:04"), v.Version == x.st.Manifest().Version})
	}
	o := &x.over
	s.background(x, &o.begin, o.ready, func(ctx context.Context) { o.err = o.count(ctx, x) })
	if !readySoon(ctx, o.ready) {
		d.Counting = true
		return d, nil
	}
	if o.err != nil {
		return nil, o.err
	}
	d.Buckets, d.Degrees = bucketMap(o.buckets, x.st.Manifest().Schema.Undirected), degreeChart(&o.degrees)
	if c := o.classes; c != nil {
		d.Unlabeled = c.Unlabeled
		for k, n := range c.Nodes {
			name := fmt.Sprint(k)
			if k < len(c.Names) {
				name = c.Names[k]
			}
			one := classOnPage{bar: bar{Name: name, Value: float64(n)}}
			for _, of := range c.Splits[min(1, len(c.Splits)):] { // but for nodes in no part
				one.Splits = append(one.Splits, of[k])
			}
			d.Classes = append(d.Classes, one)
		}
		slices.SortStableFunc(d.Classes, func(a, b classOnPage) int { return int(b.Value - a.Value) })
		if len(d.Classes) > 0 {
			for i := range d.Classes {
				d.Classes[i].Share = 100 * d.Classes[i].Value / max(1, d.Classes[0].Value)
			}
		}
		if n := len(d.Classes) - listedClasses; n > 0 {
			d.MoreClasses, d.Classes = n, d.Classes[:listedClasses]
		}
	}
	return d, nil
}

// bucketMap draws the edges between partitions.
func bucketMap(b *stats.Buckets, undirected bool) template.HTML {
	if b.Partitions < 2 {
		return ""
	}
	g := webpage.Grid{Title: "Edges between partitions", X: "to partition", Y: "from partition", Square: true, Columns: len(b.Edges), Rows: len(b.Edges)}
	most, all, inside := uint64(0), uint64(0), uint64(0)
	for i, row := range b.Edges {
		for j, n := range row {
			all += n
			if i == j {
				inside += n
			} else if undirected { // the store has each edge once
				n += b.Edges[j][i]
			}
			most = max(most, n)
		}
	}
	names := func(cell int) string {
		if b.Per == 1 {
			return fmt.Sprint(cell)
		}
		return fmt.Sprintf("%d–%d", cell*b.Per, min(b.Partitions, (cell+1)*b.Per)-1)
	}
	for i, row := range b.Edges {
		for j, n := range row {
			if undirected && i != j {
				n += b.Edges[j][i]
			}
			if class := webpage.Heat(float64(n), float64(most)); class != "" {
				g.Cells = append(g.Cells, webpage.Cell{Row: i, Column: j, Class: class, Title: fmt.Sprintf("from %s to %s: %s edges", names(i), names(j), webpage.Count(n))})
			}
		}
	}
	g.RowNames = func(i int) string { return fmt.Sprint(i * b.Per) }
	g.ColNames = g.RowNames
	g.Says = fmt.Sprintf("%s edges between %d partitions, the most of a cell %s", webpage.Count(all), b.Partitions, webpage.Count(most))
	what := "stay within their partition"
	if b.Per > 1 {
		what = fmt.Sprintf("stay within their %d partitions, which are a cell", b.Per)
	}
	g.Note = fmt.Sprintf("%.0f %% of the edges %s. A cell is what training reads for a pair of partitions; fuller colors are more.", 100*float64(inside)/math.Max(1, float64(all)), what)
	return g.HTML()
}

// degreeChart draws how many nodes have how many edges.
func degreeChart(h *stats.Histogram) template.HTML {
	c := webpage.Histogram{Title: "Edges of a node", X: "edges", Y: "nodes", LogX: true, LogY: true}
	alone := uint64(0)
	for k, n := range h.Bins {
		if k == 0 {
			alone = n
			continue
		}
		lo, hi := stats.Bin(k)
		c.Bins = append(c.Bins, webpage.Bin{Lo: float64(lo), Hi: float64(hi) + 1, N: float64(n)})
	}
	c.Note = fmt.Sprintf("The mean is %.1f, the most %s.", h.Mean(), webpage.Count(h.Max))
	if alone > 0 {
		c.Note += " Nodes without one: " + webpage.Count(alone) + "."
	}
	return c.HTML()
}

// sizes draws what the version's bytes are.
func sizes(st *store.Store) template.HTML {
	m := st.Manifest()
	of := func(roles ...store.Role) (n int64) {
		for i := range m.Columns {
			c := &m.Columns[i]
			if !slices.Contains(roles, c.Role) || len(c.Files) == 0 {
				continue
			}
			for p := range m.Partitions {
				if b, err := st.ColumnBytes(c.Name, store.PartitionID(p)); err == nil {
					n += b
				}
			}
		}
		return n
	}
	var topology int64
	for p := range m.Partitions {
		if _, e, err := st.Files().Topology(store.PartitionID(p)); err == nil {
			topology += e.Length
		}
	}
	s := webpage.Shares{Title: "Size: " + command.FormatSize(m.Bytes())}
	left := m.Bytes()
	for i, part := range []struct {
		name  string
		bytes int64
	}{{"edges", topology}, {"features", of(store.RoleFeature)}, {"columns of edges", of(store.RoleEdge, store.RoleRelation, store.RoleWeight)},
		{"labels, splits and other columns of nodes", of(store.RoleLabel, store.RoleSplit, store.RoleNode)}} {
		left -= part.bytes
		s.Parts = append(s.Parts, webpage.Part{Name: part.name, Color: i, Value: float64(part.bytes), Text: command.FormatSize(part.bytes)})
	}
	s.Parts = append(s.Parts, webpage.Part{Name: "ids, indexes, checksums", Color: 5, Value: float64(left), Text: command.FormatSize(left)})
	return s.HTML()
}

// diagramTypes is up to how many types of nodes are drawn.
const diagramTypes = 14

// diagramNode and diagramEdge are what a diagram of types consists of.
type diagramNode struct {
	X, Y, TX, TY float64
	Anchor       string
	Name         string
	Nodes        string
}

type diagramEdge struct {
	Path  string
	Title string
}

// diagram draws types of nodes and the relations between them; it is empty of one type.
func diagram(schema *store.Schema) template.HTML {
	n := len(schema.NodeTypes)
	if n < 2 || n > diagramTypes {
		return ""
	}
	const width, height, radius = 440., 300., 100.
	d := struct {
		Nodes []diagramNode
		Edges []diagramEdge
	}{}
	place := func(t int) (x, y, cos, sin float64) {
		angle := -math.Pi/2 + 2*math.Pi*float64(t)/float64(n)
		cos, sin = math.Cos(angle), math.Sin(angle)
		return width/2 + radius*cos, height/2 + radius*sin, cos, sin
	}
	between := map[[2]int][]string{}
	var order [][2]int
	for r, of := range schema.Relations {
		src, dst, ok := schema.Ends(store.RelationID(r))
		if !ok {
			continue
		}
		pair := [2]int{src, dst}
		if between[pair] == nil {
			order = append(order, pair)
		}
		between[pair] = append(between[pair], fmt.Sprintf("%s: %s edges", of.Name, webpage.Count(of.Count)))
	}
	for t, of := range schema.NodeTypes {
		x, y, cos, sin := place(t)
		away := 16.
		if between[[2]int{t, t}] != nil {
			away = 38 // behind the loop
		}
		k := diagramNode{X: x, Y: y, TX: x + away*cos, TY: y + away*sin + 4, Anchor: "start", Name: of.Name, Nodes: webpage.Count(of.Count)}
		switch {
		case math.Abs(cos) < .25:
			k.Anchor, k.TY = "middle", y+(away+6)*math.Copysign(1, sin)+4
		case cos < 0:
			k.Anchor = "end"
		}
		if r := []rune(k.Name); len(r) > 16 {
			k.Name = string(r[:15]) + "…"
		}
		d.Nodes = append(d.Nodes, k)
	}
	for _, pair := range order {
		x1, y1, cos, sin := place(pair[0])
		x2, y2, _, _ := place(pair[1])
		e := diagramEdge{Title: strings.Join(between[pair], "\n")}
		if pair[0] == pair[1] { // a loop outside
			e.Path = fmt.Sprintf("M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f", x1-8*sin, y1+8*cos, x1+42*cos-26*sin, y1+42*sin+26*cos, x1+42*cos+26*sin, y1+42*sin-26*cos, x1+8*sin, y1-8*cos)
		} else {
			dx, dy := x2-x1, y2-y1
			length := math.Hypot(dx, dy)
			dx, dy = dx/length, dy/length
			// both directions of a pair bend apart
			mx, my := (x1+x2)/2-dy*.12*length, (y1+y2)/2+dx*.12*length
			e.Path = fmt.Sprintf("M%.1f %.1fQ%.1f %.1f %.1f %.1f", x1+12*dx, y1+12*dy, mx, my, x2-14*dx, y2-14*dy)
		}
		d.Edges = append(d.Edges, e)
	}
	var b strings.Builder
	if err := pageTemplates()["diagram.html"].Execute(&b, d); err != nil {
		panic(err) // a mistake in the template
	}
	return template.HTML(b.String()) //nolint:gosec // escaped by the template
}
