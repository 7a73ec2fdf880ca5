package zoo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks/npy"
)

func errorf(format string, a ...any) error { return fmt.Errorf(format, a...) }

// readInts reads the numbers of an array of int64.
func readInts(path string) (x []int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h, err := npy.Read(f)
	if err != nil {
		return nil, err
	}
	x = make([]int64, h.Rows()*h.Dim())
	return x, binary.Read(f, binary.LittleEndian, x)
}

// eval evaluates the model and compares what it says with plain loops.
func (r *run) eval(run func(args ...string) (*Outcome, error)) error {
	args := []string{"eval", r.at("store"), "--threads", r.c.Get("threads"), "--device", r.c.Get("device"), "--json"}
	if r.c.Task() == "node" {
		args = append(args, "--out", r.at("answers"), "--write", "predictions,probabilities", "--format", "tsv")
	}
	switch {
	case r.c.Task() == "link" && r.c.Is("lists", "novalid"):
		args = append(args, "--lists", "test")
	case r.c.Task() == "link" && r.c.Is("lists", "notest"):
		args = append(args, "--lists", "valid")
	}
	o, err := run(args...)
	if err != nil {
		return err
	}
	summary, err := summaryOf(o.Stdout)
	if err != nil {
		return r.checked("eval", o.Args, err)
	}
	what := "model"
	if r.c.Task() == "link" {
		if what = "graph,features,model,embeddings"; r.c.Is("inputs", "no-embeddings") {
			what = "graph,features,model"
		}
	}
	if _, err := r.must("export", r.at("store"), r.at("model"), "--what", what, "--format", "tsv", "--quiet"); err != nil {
		return err
	}
	m, err := readModel(r.at("model"))
	if err != nil {
		return r.checked("eval", o.Args, err)
	}
	if r.c.Task() == "link" {
		return r.links(o, m, summary)
	}
	if r.c.Is("values", "large") {
		return nil // sums of such numbers are infinite
	}
	return r.checked("eval", o.Args, r.classes(m, summary))
}

// classes compares probabilities, predictions, and the metrics of each part with those of plain loops.
func (r *run) classes(m *model, summary map[string]any) error {
	p, err := r.plain(r.content, m.Relations)
	if err != nil {
		return err
	}
	h, categories, err := m.inputs(p)
	if err != nil {
		return err
	}
	relational := slices.Contains(relationModels, m.Model) // what was trained, which a remedy may have changed
	logits, err := m.forward(h, categories, p.neighbours(m.Undirected, relational, len(m.Relations)))
	if err != nil {
		return err
	}
	answers := &Content{Nodes: map[string]*Row{}}
	if err := answers.readNodes(filepath.Join(r.at("answers"), "nodes.tsv")); err != nil {
		return err
	}
	if m.Numbers != nil || m.Several {
		return m.others(p, logits, answers, summary)
	}
	right, of, loss := map[string]int{}, map[string]int{}, map[string]float64{}
	for v, id := range p.ids {
		row := logits.row(v)
		logs := slices.Clone(row)
		logTotal, err := softmax(row)
		if err != nil {
			return err
		}
		a := answers.Nodes[id]
		if a == nil || len(a.Columns["probabilities"]) != len(row) {
			return errorf("node %q: no probabilities of %d classes", id, len(row))
		}
		predicted := int(a.Columns["prediction"][0])
		for k, x := range row {
			if got := float64(a.Columns["probabilities"][k]); math.Abs(got-x) > 2e-3 {
				return errorf("node %q: class %d has probability %v, by plain loops %v", id, k, got, x)
			}
			if x > row[predicted]+4e-3 {
				return errorf("node %q: class %d is predicted, by plain loops %d", id, predicted, k)
			}
		}
		label, err := strconv.Atoi(p.rows[v].Label)
		if part := p.rows[v].Part; err == nil && label >= 0 && part != "none" {
			of[part]++
			if predicted == label {
				right[part]++
			}
			loss[part] += logTotal - logs[label] // the probability may be too small for a number
		}
	}
	for part, n := range of {
		if got := number(summary[part+"_nodes"]); got != float64(n) {
			return errorf("%s has %v nodes, expected %d", part, got, n)
		}
		if got, want := number(summary[part+"_accuracy"]), float64(right[part])/float64(n); math.Abs(got-want) > 1e-9 {
			return errorf("accuracy of %s is %v, of the predictions that were written %v", part, got, want)
		}
		if got, want := number(summary[part+"_loss"]), loss[part]/float64(n); math.Abs(got-want) > 1e-2*(1+want) {
			return errorf("loss of %s is %v, by plain loops %v", part, got, want)
		}
	}
	return nil
}

// others is classes of a model that says numbers, or several labels a node.
func (m *model) others(p *plain, outputs matrix, answers *Content, summary map[string]any) error {
	of, far, hits, misses := map[string]int{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	for v, id := range p.ids {
		a := answers.Nodes[id]
		if a == nil || len(a.Columns["probabilities"]) != outputs.cols {
			return errorf("node %q: no answer of %d outputs", id, outputs.cols)
		}
		label, part := strings.Fields(p.rows[v].Label), p.rows[v].Part
		known := part != "none" && label[0] != "NaN" && (label[0] != "-1" || m.Numbers != nil)
		if known {
			of[part]++
		}
		for k, x := range outputs.row(v) {
			got := float64(a.Columns["probabilities"][k])
			want, near := 1/(1+math.Exp(-x)), 2e-3
			if m.Numbers != nil {
				want, near = x*m.Numbers.Deviation+m.Numbers.Mean, 2e-3*(1+math.Abs(x))*m.Numbers.Deviation
			}
			if math.Abs(got-want) > near {
				return errorf("node %q: output %d is %v, by plain loops %v", id, k, got, want)
			}
			if !known {
				continue
			}
			y, err := strconv.ParseFloat(label[k], 64)
			if err != nil {
				return err
			}
			far[part] += math.Abs(got-y) / float64(outputs.cols)
			switch said := got > .5; {
			case m.Numbers != nil:
			case said && y == 1:
				hits[part]++
			case said != (y == 1):
				misses[part]++
			}
		}
	}
	for part, n := range of {
		if got := number(summary[part+"_nodes"]); got != float64(n) {
			return errorf("%s has %v nodes, expected %d", part, got, n)
		}
		name, want, near := "_mae", far[part]/float64(n), 1e-4*(1+far[part]/float64(n))
		if m.Numbers == nil {
			name, near = "_f1_micro", 1e-9
			if want = 0; hits[part] > 0 {
				want = 2 * hits[part] / (2*hits[part] + misses[part])
			}
		}
		if got := number(summary[part+name]); math.Abs(got-want) > near {
			return errorf("%s%s is %v, of the answers that were written %v", part, name, got, want)
		}
	}
	return nil
}

// number is a number of --json; NaN where there is none.
func number(x any) float64 {
	if f, ok := x.(float64); ok {
		return f
	}
	return math.NaN()
}

// predict asks the model of a node, and compares the answer's form.
func (r *run) predict(run func(args ...string) (*Outcome, error)) error {
	args := []string{"predict", r.at("store"), r.g.Nodes[0].ID, "--json"}
	if r.c.Task() == "link" {
		relation := "edge"
		if len(r.g.Relations) > 0 {
			relation = r.g.Relations[0].Name
		}
		args = []string{"predict", r.at("store"), r.g.Nodes[0].ID, relation, "?", "--top", "3", "--json"}
	}
	o, err := run(args...)
	if err != nil {
		return err
	}
	list, err := events(o.Stdout)
	if err == nil && (len(list) < 2 || list[len(list)-1]["event"] != "summary") {
		err = errorf("%d lines of --json, expected an answer and a summary", len(list))
	}
	if err == nil && strings.Contains(o.Stdout, "NaN") {
		err = errors.New("an answer is not a number")
	}
	if err = r.checked("predict", o.Args, err); err != nil || r.c.Task() != "node" && r.c.Task() != "link" {
		return err
	}
	if r.c.Task() == "node" {
		if err := r.explain(run, list[0]); err != nil {
			return err
		}
	}
	return r.serve(list[0])
}
