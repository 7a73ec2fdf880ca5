package zoo

import "slices"

// Axes are all that cases are told apart by: first those of the graph and its files, then those of its ingest, then those of what is
// done with the store. The first value of each is the plainest one.
var Axes = []Axis{
	// The graph.
	{"nodes", []string{"37", "1", "2", "3", "5", "16", "64", "97", "128", "211", "300"}},
	{"edges", []string{"random", "none", "one", "loops", "parallel", "hub", "path", "isolated"}},
	{"types", []string{"1", "2", "3"}},
	{"relations", []string{"0", "1", "2", "5"}},
	{"classes", []string{"3", "0", "1", "2", "40"}},
	{"labels", []string{"classes", "numbers", "several"}}, // several: any number of so many classes a node
	{"split", []string{"even", "none", "notrain", "novalid", "notest", "one"}},
	{"columns", []string{"1", "0", "2"}},
	{"width", []string{"5", "1", "2", "3", "8", "17", "31", "64", "70", "4000"}},
	{"values", []string{"normal", "zero", "large", "tiny", "words"}}, // words: few are other than 0
	{"weights", []string{"no", "yes", "zero", "negative"}},
	{"times", []string{"no", "yes", "equal"}},
	{"edgefeatures", []string{"0", "1", "4"}},
	{"lists", []string{"no", "both", "novalid", "notest", "given", "shared"}},
	// Its files.
	{"format", []string{"numpy", "edgelist", "typed", "tables", "triples"}},
	{"ids", []string{"dense", "integers", "strings"}},
	// Its store.
	{"undirected", []string{"no", "yes"}},
	{"dedup", []string{"default", "no", "pair", "relation"}},
	{"loops", []string{"keep", "drop", "add"}},
	{"partitions", []string{"auto", "1", "2", "3", "7", "each", "more"}},
	{"partitioner", []string{"auto", "random", "range", "fennel", "gap", "hdr", "file"}},
	{"hubs", []string{"none", "0.1", "auto", "train"}},
	{"dtype", []string{"default", "float16", "bfloat16", "float64", "int8"}},
	{"normalize", []string{"no", "yes"}},
	{"before", []string{"nothing", "hop", "partition", "precompute", "precompute-gcn", "each-relation", "append", "append-column", "update", "delete", "remove", "again"}},
	{"place", []string{"here", "pulled", "lazy"}},
	// What is done with it.
	{"command", []string{"train", "eval", "predict", "nearest", "resume", "from", "plan", "export-model", "export", "walks", "partition", "ingest"}},
	{"model", []string{"sage", "gcn", "gat", "gin", "rgcn", "rsage", "rgat", "hgt", "mlp", "distmult", "complex", "transe", "rotate", "dot", "temporal"}},
	{"encoder", []string{"none", "sage", "gcn", "gat"}},
	{"inputs", []string{"default", "features", "no-embeddings"}},
	{"layers", []string{"2", "1", "3"}},
	{"fanouts", []string{"default", "all", "1", "3"}},
	{"hidden", []string{"8", "1", "33"}},
	{"heads", []string{"default", "1", "4"}},
	{"norm", []string{"none", "layer", "batch"}},
	{"jumping", []string{"last", "cat", "max"}},
	{"residual", []string{"no", "yes"}},
	{"aggregator", []string{"default", "max"}},
	{"batch", []string{"default", "1", "7"}},
	{"epochs", []string{"2", "1", "default"}},
	{"plan", []string{"auto", "memory", "rows", "hanoi", "trainnodes", "comet", "beta"}},
	{"buffer", []string{"default", "1", "2"}},
	{"sampler", []string{"uniform", "weighted", "labor", "dense", "pinsage"}},
	{"absent", []string{"auto", "ignore", "shadow"}},
	{"history", []string{"no", "yes"}},
	{"precomputed", []string{"no", "yes"}},
	{"edgeuse", []string{"nothing", "weights", "features"}},
	{"vectors", []string{"auto", "memory", "table"}},
	{"optimizer", []string{"default", "adam"}},
	{"loss", []string{"default", "logistic", "margin"}},
	{"negatives", []string{"5", "1", "500"}},
	{"mem", []string{"none", "smallest", "more", "twice"}},
	{"threads", []string{"1", "2", "3"}},
	{"device", []string{"host", "cuda"}},
}

// Models of each task.
var (
	nodeModels     = []string{"sage", "gcn", "gat", "gin", "rgcn", "rsage", "rgat", "hgt", "mlp"}
	relationModels = []string{"rgcn", "rsage", "rgat", "hgt"}
	linkModels     = []string{"distmult", "complex", "transe", "rotate", "dot"}
)

// Task is what the case's model learns: node, link or temporal.
func (c Case) Task() string {
	switch {
	case c.Is("model", nodeModels...):
		return "node"
	case c.Is("model", linkModels...):
		return "link"
	}
	return "temporal"
}

// Rules leave out what is known to be refused: pairs of values that say nothing of each other, and inputs that a format cannot hold.
// What is drawn without them, by [Wild], shows that it is refused.
var Rules = slices.Concat(
	// What formats hold.
	only("types", is("2", "3"), "format", is("typed", "tables")),
	only("format", is("typed"), "ids", is("dense")),
	only("format", is("tables", "triples"), "ids", is("strings")),
	only("times", not("no"), "format", is("edgelist", "typed", "tables")),
	only("lists", not("no"), "format", is("numpy", "triples")),
	only("lists", is("given", "shared"), "format", is("numpy")),
	only("format", is("triples"), "classes", is("0")),
	only("format", is("triples"), "split", is("none")),
	only("format", is("triples"), "columns", is("0")),
	only("format", is("triples"), "weights", is("no")),
	only("format", is("triples"), "edgefeatures", is("0")),
	only("format", is("triples"), "relations", not("0")),
	only("format", is("triples"), "edges", not("none")),
	only("nodes", is("1", "2", "3", "5"), "hubs", is("none")),
	only("nodes", is("1", "2"), "partitions", is("auto", "1", "each")),
	only("nodes", is("3", "5"), "partitions", not("7")),
	only("hubs", not("none"), "partitions", not("each")),
	only("partitions", is("each"), "epochs", not("default")),  // of a partition a node each pair is a step of links
	only("partitions", is("more"), "partitioner", is("file")), // others leave no partition empty
	only("columns", is("0"), "normalize", is("no")),
	only("columns", is("0"), "dtype", is("default")),
	only("columns", is("0"), "width", is("5")),
	only("columns", is("0"), "values", is("normal")),
	only("values", is("large"), "dtype", is("default", "bfloat16", "float64")), // others have no such number
	only("values", is("tiny"), "dtype", is("default", "float64")),
	only("dtype", is("float64"), "command", is("export", "walks", "partition", "ingest")), // no model reads them
	only("dtype", is("float64"), "before", not("hop", "precompute", "precompute-gcn", "each-relation")),
	only("split", not("none"), "classes", not("0")),
	only("labels", not("classes"), "classes", not("0", "1")),
	only("width", is("4000"), "nodes", not("97", "128", "211", "300")),
	// Few nodes.
	only("nodes", is("1"), "edges", is("none", "loops")),
	// What a store must have.
	only("model", is(nodeModels...), "classes", not("0")),
	only("model", is(nodeModels...), "split", not("none", "notrain")),
	only("model", is("sage", "gcn", "gat", "gin", "mlp"), "columns", not("0")),
	only("model", is(linkModels...), "lists", not("no")),
	only("model", is("temporal"), "times", is("yes")),
	only("model", is("temporal"), "edges", not("none", "one")),
	only("model", is("temporal"), "nodes", not("1", "2", "3", "5")),
	only("model", is(append(linkModels, "temporal")...), "edges", not("none")),
	only("hubs", is("train"), "split", not("none", "notrain")),
	only("partitioner", is("gap"), "split", not("none", "notrain")),
	only("partitioner", is("file"), "ids", is("dense")),
	only("before", is("hop", "precompute", "precompute-gcn", "each-relation"), "columns", not("0")),
	only("before", is("each-relation"), "types", not("1")),
	only("before", is("precompute", "precompute-gcn", "hop"), "types", is("1")),
	only("before", is("append", "update", "delete", "remove"), "format", is("edgelist")),
	only("before", is("update", "delete", "remove"), "loops", not("add")),
	only("before", is("remove"), "types", is("1")),
	only("before", is("append-column"), "ids", is("dense")),
	// What models take.
	only("encoder", not("none"), "model", is(linkModels...)),
	only("inputs", not("default"), "model", is(linkModels...)),
	only("inputs", not("default"), "encoder", not("none")),
	only("inputs", not("default"), "columns", not("0")),
	only("optimizer", not("default"), "model", is(linkModels...)),
	only("loss", not("default"), "model", is(linkModels...)),
	only("negatives", not("5"), "model", is(linkModels...)),
	only("heads", not("default"), "model", is("gat", "rgat", "hgt")),
	only("command", is("from"), "model", is(linkModels...)),   // of nodes: tools/cli/training/from_test.go
	only("epochs", is("default"), "model", is(linkModels...)), // of nodes it is as many as it takes
	only("epochs", is("default"), "batch", is("default")),
	only("norm", not("none"), "model", is(nodeModels...)),
	only("jumping", not("last"), "model", is(nodeModels...)),
	only("residual", not("no"), "model", is(nodeModels...)),
	only("aggregator", not("default"), "model", is("sage")),
	only("vectors", not("auto"), "model", is(relationModels...)),
	only("vectors", not("auto"), "types", not("1")),
	only("edgeuse", is("weights"), "weights", not("no")),
	only("edgeuse", is("weights"), "model", is("sage", "gcn")),
	only("edgeuse", is("features"), "edgefeatures", not("0")),
	only("edgeuse", is("features"), "model", is("gat")),
	only("sampler", is("weighted"), "weights", not("no")),
	only("sampler", not("uniform"), "model", is(nodeModels...)),
	only("sampler", not("uniform"), "model", not("mlp")),
	only("absent", is("shadow"), "encoder", not("none")),
	only("history", is("yes"), "model", is("sage", "gcn", "gat", "gin", "rgcn", "rsage", "rgat")),
	only("history", is("yes"), "plan", is("hanoi")),
	only("history", is("yes"), "edgeuse", is("nothing")),
	only("edgeuse", is("features"), "plan", not("rows")),
	only("edgeuse", not("nothing"), "sampler", not("pinsage")),
	only("edgeuse", is("weights"), "sampler", not("weighted")),
	only("edgeuse", is("weights"), "precomputed", is("no")),
	only("sampler", is("pinsage"), "precomputed", is("no")),
	only("plan", is("rows"), "sampler", not("labor")),
	only("plan", is("rows"), "vectors", not("table")),
	only("plan", is("comet", "beta"), "buffer", not("1")),
	only("precomputed", is("yes"), "model", is("sage", "gcn", "gin", "rsage")),
	only("precomputed", is("yes"), "before", is("hop", "precompute", "precompute-gcn", "each-relation")),
	only("plan", is("rows", "hanoi", "trainnodes"), "model", is(nodeModels...)),
	only("plan", is("comet", "beta"), "model", is(linkModels...)),
	only("plan", is("trainnodes"), "hubs", is("train")),
	only("buffer", not("default"), "plan", is("hanoi", "comet", "beta")),
	only("model", is("temporal"), "layers", is("2")),
	only("model", is("temporal"), "absent", is("auto")),
	only("model", is("temporal"), "undirected", is("no")),
	only("vectors", is("table"), "columns", not("0")),
	only("model", is(linkModels...), "undirected", is("no")),
	only("model", is(linkModels...), "classes", is("0")),
	only("precomputed", is("yes"), "layers", not("1")),
	only("precomputed", is("yes"), "model", is("sage", "gcn", "rsage")),
	only("precomputed", is("yes"), "aggregator", is("default")),
	only("model", is("sage"), "before", not("precompute-gcn", "each-relation")),
	only("model", is("gcn"), "before", not("precompute", "hop", "each-relation")),
	only("model", is("rsage"), "before", not("precompute", "hop", "precompute-gcn")),
	only("before", is("each-relation"), "format", is("typed", "tables")),
	only("before", is("each-relation"), "undirected", is("no")),
	only("history", is("yes"), "aggregator", is("default")),
	only("history", is("yes"), "jumping", is("last")),
	only("history", is("yes"), "model", not("rgat")),
	only("sampler", is("pinsage"), "model", is("sage", "gat", "gin")),
	only("absent", is("shadow"), "layers", is("1")),
	only("partitioner", is("gap", "hdr"), "hubs", not("train")),
	only("partitioner", is("hdr"), "hubs", not("auto")),
	only("partitioner", is("hdr"), "nodes", not("1", "2", "3", "5")),
	only("model", is("temporal"), "command", not("eval", "export-model", "plan")),
)

func is(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, v) }
}

func not(values ...string) func(string) bool {
	return func(v string) bool { return !slices.Contains(values, v) }
}

// only says that where axis a has one of some values axis b must have one of others; of further pairs of an axis and its values one
// must hold too.
func only(a string, as func(string) bool, b string, bs func(string) bool, more ...any) []Rule {
	rules := []Rule{{a, b, func(x, y string) bool { return as(x) && !bs(y) }}}
	for i := 0; i+1 < len(more); i += 2 {
		rules = append(rules, only(a, as, more[i].(string), more[i+1].(func(string) bool))...)
	}
	return rules
}
