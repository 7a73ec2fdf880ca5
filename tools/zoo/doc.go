// Package zoo runs gstore over small stores of every shape, to find what data sets that people know do not have: an odd number of
// nodes, one class, no edges, an empty partition.
//
// A [Case] is a value of each of the [Axes]: of the graph (1 to 300 nodes, eight kinds of edges, types, relations, classes, columns
// of 1 to 4,000 numbers, weights, times, lists), of its files, of its ingest, and of what is done with the store: a command, a task,
// a model, a plan, a budget, threads, a device. [Cover] draws cases in which every pair of values occurs that the [Rules] allow (a
// covering array of some 200 cases for 52 axes), and [Wild] draws such as no rule restrains.
//
// [Run] makes the graph by [Shape], writes its files, and runs gstore on them as processes of their own. Each command must
//
//   - end well, and agree with an oracle: the store holds the graph, to the edge; a walk goes along edges; probabilities are those of
//     plain loops over the exported model; ranks are those of a full sort; losses are the same for any number of threads;
//   - or refuse, with exit code 2, or 1 and a documented message. The remedy that the message names, a flag's value or the smallest
//     --mem, is then followed, and works;
//   - and in no case panic, say what is a fault of ours ("shapes do not fit"), end with the exit code of a damaged store, or take more
//     memory than --mem.
//
// A case is printed as the values that are not plain, such as "nodes=1,edges=none,model=gcn", and run again by
//
//	go build -o gs ./tools/gstore && go run ./tools/zoo/cmd -gstore gs -case nodes=1,edges=none,model=gcn -v
//
// Those that failed once are kept in testdata/found. The package is used by one goroutine; the same seed gives the same cases, and a
// case the same graph.
package zoo
