package zoo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Found is a defect: what a command said or did, and the command itself.
type Found struct {
	Case   Case     `json:"-"`
	Replay string   `json:"case"`
	Args   []string `json:"args"`
	What   string   `json:"what"`
}

// Result is what came of a case.
type Result struct {
	Case     Case
	Runs     int      // commands
	Refused  []string // messages
	Remedied int      // refusals whose remedy was followed, and worked
	Unnamed  []string // refusals that name no remedy that was understood, or one that did not help
	Checked  []string // oracles that agreed
	Found    []Found
}

// errStop ends a case early: a command was refused, or a defect was found.
var errStop = errors.New("zoo: the case ends")

// run is a case under way.
type run struct {
	ctx context.Context
	gs  *Gstore
	c   Case
	dir string
	g   *Graph
	res *Result

	content   *Content // what the store is known to hold; nil = nothing is known
	fromGraph bool     // it holds the graph, and how its edges are written is not known yet
}

// Run runs a case in the new folder dir. Errors are those of the machine; what gstore does wrong is in the result.
func Run(ctx context.Context, gs *Gstore, c Case, dir string) (_ *Result, err error) {
	before := gs.Runs
	r := &run{ctx: ctx, gs: gs, c: c, dir: dir, g: Shape(c), res: &Result{Case: c}}
	defer func() { r.res.Runs = gs.Runs - before }()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, step := range []func() error{r.ingest, r.before, r.command, r.pushed} {
		if err := step(); errors.Is(err, errStop) {
			break
		} else if err != nil {
			return nil, err
		}
	}
	return r.res, nil
}

func (r *run) at(name string) string { return filepath.Join(r.dir, name) }

// defect notes what is wrong and ends the case.
func (r *run) defect(args []string, format string, a ...any) error {
	r.res.Found = append(r.res.Found, Found{Case: r.c, Replay: r.c.String(), Args: args, What: fmt.Sprintf(format, a...)})
	return errStop
}

// checked notes an oracle's verdict.
func (r *run) checked(name string, args []string, err error) error {
	if err != nil {
		return r.defect(args, "%s: %v", name, err)
	}
	r.res.Checked = append(r.res.Checked, name)
	return nil
}

// must runs a command, follows the remedies of its refusals, and returns how it ended when it was done.
func (r *run) must(args ...string) (*Outcome, error) { return r.follow(args, 4) }

func (r *run) follow(args []string, deep int) (*Outcome, error) {
	o, err := r.gs.Run(r.ctx, args...)
	if err != nil {
		return nil, err
	}
	switch o.Verdict() {
	case Done:
		return o, nil
	case Defect:
		return nil, r.defect(args, "exit %d: %s", o.Code, o.Message())
	}
	said := o.Message()
	r.res.Refused = append(r.res.Refused, said)
	if deep == 0 {
		return nil, errStop
	}
	tried := 0
	for _, line := range Remedies(args, said) {
		tried++
		found, refused := len(r.res.Found), len(r.res.Unnamed)
		o, err := r.follow(line, deep-1)
		if err == nil {
			r.res.Remedied++
			return o, nil
		}
		if !errors.Is(err, errStop) || len(r.res.Found) > found {
			return nil, err
		}
		if Smallest(said) > 0 {
			return nil, r.defect(line, "--mem %s was named as the smallest that works, and is refused: %s", FlagOf(line, "--mem"), r.res.Refused[len(r.res.Refused)-1])
		}
		r.res.Unnamed = r.res.Unnamed[:refused]
	}
	if tried > 0 {
		said += fmt.Sprintf("  [%d remedies were tried]", tried)
	}
	r.res.Unnamed = append(r.res.Unnamed, said)
	return nil, errStop
}

// budgeted runs a command with the case's budget, in parts of the smallest that its refusal of 1 MiB names, and checks that it keeps it.
func (r *run) budgeted(args ...string) (*Outcome, error) {
	factor := map[string]float64{"smallest": 1, "more": 1.25, "twice": 2}[r.c.Get("mem")]
	if factor == 0 {
		return r.must(args...)
	}
	tiny := SetFlag(args, "--mem", "1MiB")
	o, err := r.gs.Run(r.ctx, tiny...)
	if err != nil {
		return nil, err
	}
	// A refusal for another reason comes first: with its remedy the budget is asked for again.
	for range 4 {
		if o.Verdict() != Refused || Smallest(o.Message()) > 0 {
			break
		}
		lines := Remedies(tiny, o.Message())
		if len(lines) == 0 {
			return r.must(args...)
		}
		r.res.Refused = append(r.res.Refused, o.Message())
		tiny = lines[0]
		if o, err = r.gs.Run(r.ctx, tiny...); err != nil {
			return nil, err
		}
	}
	switch {
	case o.Verdict() == Defect:
		return nil, r.defect(tiny, "exit %d: %s", o.Code, o.Message())
	case o.Verdict() == Done:
		return nil, r.defect(tiny, "--mem 1MiB is taken, with a peak of %.1f MiB", mib(o.PeakBytes))
	case Smallest(o.Message()) == 0:
		return r.must(args...)
	}
	least := Smallest(o.Message())
	r.res.Refused = append(r.res.Refused, o.Message())
	line := SetFlag(tiny, "--mem", strconv.Itoa(int(float64(least)*factor))+"MiB")
	if o, err = r.gs.Run(r.ctx, line...); err != nil {
		return nil, err
	}
	budget := int64(float64(least)*factor) << 20
	switch {
	case o.Verdict() == Refused && Smallest(o.Message()) == 0 && !strings.Contains(o.Message(), "budget"): // there is another reason too
		return r.must(line...)
	case o.Verdict() != Done:
		return nil, r.defect(line, "%g of the smallest --mem that was named fails with exit %d: %s", factor, o.Code, o.Message())
	case o.PeakBytes > budget:
		return nil, r.defect(line, "--mem %s: a peak of %.1f MiB", FlagOf(line, "--mem"), mib(o.PeakBytes))
	}
	r.res.Remedied++
	return o, nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// ingest makes the store and compares what it holds with the graph.
func (r *run) ingest() error {
	in, err := r.g.Write(r.at("in"), r.c.Get("format"))
	if err != nil {
		return err
	}
	args := append([]string{"ingest", in.Path, r.at("store")}, in.Flags...)
	flag := func(axis, plain string, flags ...string) {
		if v := r.c.Get(axis); v != plain {
			for _, f := range flags {
				args = append(args, strings.ReplaceAll(f, "VALUE", v))
			}
		}
	}
	flag("undirected", "no", "--undirected")
	flag("dedup", "default", "--dedup", "VALUE")
	flag("loops", "keep", "--self-loops", "VALUE")
	flag("hubs", "none", "--hubs", "VALUE")
	flag("dtype", "default", "--feature-dtype", "VALUE")
	if r.c.Is("split", "none") {
		args = append(args, "--split-random", "none")
	}
	switch r.c.Get("labels") {
	case "numbers":
		args = append(args, "--labels", "numbers")
	case "several":
		args = append(args, "--labels", "multi")
	}
	args = append(args, map[string]string{"no": "--normalize=none", "yes": "--normalize"}[r.c.Get("normalize")])
	if r.c.Is("before", "hop") {
		args = append(args, "--precompute-hops", "1")
	}
	n := len(r.g.Nodes)
	switch v := r.c.Get("partitions"); v {
	case "auto":
	case "each":
		args = append(args, "--partitions", strconv.Itoa(n))
	case "more":
		args = append(args, "--partitions", strconv.Itoa(n+3))
	default:
		args = append(args, "--partitions", v)
	}
	if r.c.Is("partitioner", "file") {
		if err := r.assignment(); err != nil {
			return err
		}
		args = append(args, "--partitioner", "file:"+r.at("parts.txt"))
	} else {
		flag("partitioner", "auto", "--partitioner", "VALUE")
	}
	run := r.must
	if r.c.Is("command", "ingest") {
		run = r.budgeted
	}
	if _, err := run(append(args, "--threads", r.c.Get("threads"), "--quiet")...); err != nil {
		return err
	}
	r.fromGraph = true
	if err := r.moved(); err != nil {
		return err
	}
	return r.holds("store")
}

// moved puts the store that was pushed and pulled in place of the one that was made, where the case says so.
func (r *run) moved() error {
	if r.c.Is("place", "here") {
		return nil
	}
	address := "file://" + filepath.ToSlash(r.at("bucket"))
	if _, err := r.must("push", r.at("store"), address, "--quiet"); err != nil {
		return err
	}
	if err := os.Rename(r.at("store"), r.at("made")); err != nil {
		return err
	}
	args := []string{"pull", address, r.at("store"), "--quiet"}
	if r.c.Is("place", "lazy") {
		args = append(args, "--lazy")
	}
	_, err := r.must(args...)
	return err
}

// pushed pushes what became of such a store, and verifies what is pulled of it.
func (r *run) pushed() error {
	if r.c.Is("place", "here") {
		return nil
	}
	address := "file://" + filepath.ToSlash(r.at("bucket"))
	for _, args := range [][]string{{"push", r.at("store"), address}, {"verify", address}, {"pull", address, r.at("made")}, {"verify", r.at("made")}} {
		if _, err := r.must(append(args, "--quiet")...); err != nil {
			return err
		}
	}
	return nil
}

// assignment writes a partition for each node: every other one is empty.
func (r *run) assignment() error {
	parts := 4
	if n, err := strconv.Atoi(r.c.Get("partitions")); err == nil {
		parts = n
	} else if r.c.Is("partitions", "each") {
		parts = len(r.g.Nodes)
	}
	var lines []string
	for i := range r.g.Nodes {
		lines = append(lines, strconv.Itoa(i*2%parts))
	}
	return os.WriteFile(r.at("parts.txt"), []byte(strings.Join(append(lines, ""), "\n")), 0o666)
}

// holds exports a store, and verifies it, and compares what it holds with what is known.
func (r *run) holds(store string) error {
	if _, err := r.must("verify", r.at(store), "--quiet"); err != nil {
		return err
	}
	args := []string{"export", r.at(store), r.at("out"), "--format", "tsv", "--quiet"}
	if _, err := r.must(args...); err != nil {
		return err
	}
	got, err := ReadContent(r.at("out"), r.c.Is("undirected", "yes"))
	if err == nil {
		if r.fromGraph {
			r.content = r.g.Expected(r.c, got.Relation)
			r.fromGraph = false
		}
		if r.content != nil {
			err = r.compare(got)
		}
		r.content = got
	}
	if err := r.checked("content", args, err); err != nil {
		return err
	}
	return os.RemoveAll(r.at("out"))
}

// compare compares what a store holds with what is known, to the precision of its type of numbers.
func (r *run) compare(got *Content) error {
	near := map[string]float64{"float16": 1e-3, "bfloat16": 8e-3, "int8": .1}[r.c.Get("dtype")]
	if r.c.Is("values", "tiny") && !r.c.Is("dtype", "default", "float64") {
		near = 1 // others know few such numbers, or none
	}
	if r.c.Is("normalize", "yes") {
		near = max(near, 1e-3)
	}
	if len(got.Nodes) == 0 && len(r.g.Columns) == 0 && r.g.Classes == 0 {
		got.Nodes = r.content.Nodes // an export without columns has no table of nodes
	}
	if !r.c.Is("format", "triples") {
		return got.Same(r.content, near, !r.c.Is("dedup", "default", "no") || r.c.Is("undirected", "yes"))
	}
	return (&Content{Edges: got.Edges}).Same(&Content{Edges: r.content.Edges}, 0, !r.c.Is("dedup", "default", "no"))
}

// before does to the store what comes before the command.
func (r *run) before() error {
	store := r.at("store")
	switch what := r.c.Get("before"); what {
	case "partition":
		if _, err := r.must("partition", store, "--quiet"); err != nil {
			return err
		}
	case "precompute":
		if _, err := r.must("precompute", store, "--quiet"); err != nil {
			return err
		}
	case "precompute-gcn":
		if _, err := r.must("precompute", store, "--model", "gcn", "--quiet"); err != nil {
			return err
		}
	case "each-relation":
		if _, err := r.must("precompute", store, "--each-relation", "--quiet"); err != nil {
			return err
		}
	case "again":
		return r.again("numpy")
	case "append-column":
		return r.appendColumn()
	case "update", "delete":
		return r.take(what == "update")
	case "remove":
		return r.remove()
	case "append":
		return r.append()
	default:
		return nil
	}
	return r.holds("store")
}

// again exports the store and ingests what was written: it holds the same.
func (r *run) again(format string) error {
	if _, err := r.budgeted("export", r.at("store"), r.at("again"), "--format", format, "--what", "graph,features,labels,splits", "--quiet"); err != nil {
		return err
	}
	flags, err := againFlags(r.at("again"))
	if err != nil {
		return r.checked("meta.json", nil, err)
	}
	if _, err := r.must(append([]string{"ingest", r.at("again"), r.at("second"), "--quiet"}, flags...)...); err != nil {
		return err
	}
	known := r.content
	if err := r.holds("second"); err != nil {
		return err
	}
	r.content = known
	return errors.Join(os.RemoveAll(r.at("again")), os.RemoveAll(r.at("second")))
}

// againFlags are the flags of the command by which an export says that it is ingested.
func againFlags(dir string) ([]string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		return nil, err
	}
	var meta struct {
		Ingest string `json:"ingest"`
	}
	if err := json.Unmarshal(b, &meta); err != nil {
		return nil, err
	}
	f := strings.Fields(meta.Ingest)
	if len(f) < 4 || f[0] != "gstore" || f[1] != "ingest" {
		return nil, errorf("it says %q, expected gstore ingest FOLDER STORE and flags", meta.Ingest)
	}
	return f[4:], nil
}

// flags are those of training that the case's axes say.
func (r *run) flags() (args []string) {
	c := r.c
	add := func(axis, flag string) {
		if v := c.Get(axis); v != Case(nil).Get(axis) {
			args = append(args, flag, v)
		}
	}
	on := func(axis, flag string) {
		if c.Is(axis, "yes") {
			args = append(args, flag)
		}
	}
	args = append(args, "--task", c.Task(), "--threads", c.Get("threads"))
	if c.Task() != "temporal" {
		args = append(args, "--model", c.Get("model"))
	}
	if c.Task() == "node" {
		args = append(args, "--hidden", c.Get("hidden"), "--dropout", "0.1")
	} else {
		args = append(args, "--dim", "8")
	}
	if c.Task() == "link" {
		args = append(args, "--negatives", c.Get("negatives"))
	}
	switch c.Get("inputs") {
	case "features":
		args = append(args, "--features", "x")
	case "no-embeddings":
		args = append(args, "--features", "x", "--no-embeddings")
	}
	layers := s2i(c.Get("layers"))
	if f := c.Get("fanouts"); f != "default" && c.Task() != "temporal" && !c.Is("model", "mlp") && (c.Task() == "node" || !c.Is("encoder", "none")) {
		args = append(args, "--fanouts", strings.Join(slices.Repeat([]string{strings.ReplaceAll(f, "all", "-1")}, layers), ","))
	} else if layers != 2 {
		args = append(args, "--layers", strconv.Itoa(layers))
	}
	for _, axis := range []string{"encoder", "heads", "norm", "jumping", "aggregator", "plan", "buffer", "sampler", "absent", "vectors", "optimizer", "loss", "device"} {
		add(axis, "--"+axis)
	}
	add("batch", "--batch-size")
	on("residual", "--residual")
	on("history", "--history")
	on("precomputed", "--precomputed-hop")
	switch c.Get("edgeuse") {
	case "weights":
		args = append(args, "--edge-weights")
	case "features":
		args = append(args, "--edge-features", "e")
	}
	return args
}

// yielding are the axes of training that give way, one after the other, where a case's training is refused: its command is run all the
// same, with the plainest value of these.
var yielding = []string{"sampler", "precomputed", "edgeuse", "history", "absent", "vectors", "buffer", "plan", "heads", "jumping", "aggregator", "inputs",
	"encoder", "layers", "batch", "model"}

// train trains the case's model, with its budget or without. Where that is refused a plainer one is trained, until none is plainer.
func (r *run) train(run func(args ...string) (*Outcome, error)) (*Outcome, error) {
	for {
		args := append(append([]string{"train", r.at("store")}, r.flags()...), "--json")
		if e := r.c.Get("epochs"); e != "default" {
			args = append(args, "--epochs", e)
		}
		if r.c.Is("command", "from") {
			args = append(args, "--table", firstTable)
		}
		o, err := run(args...)
		if !errors.Is(err, errStop) || len(r.res.Found) > 0 {
			return o, err
		}
		i := slices.IndexFunc(yielding, func(axis string) bool { return r.c.Get(axis) != r.plainest(axis) })
		if i < 0 {
			return nil, err
		}
		r.c = maps.Clone(r.c)
		r.c[yielding[i]] = r.plainest(yielding[i])
	}
}

// plainest is an axis' plainest value, of the model that of its task.
func (r *run) plainest(axis string) string {
	if axis == "model" {
		return map[string]string{"node": "sage", "link": "distmult", "temporal": "temporal"}[r.c.Task()]
	}
	return Case(nil).Get(axis)
}
