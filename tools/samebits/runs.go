package main

import "strings"

// run is one training that both builds do.
type run struct {
	name  string
	graph string // one of graphs, or of the data sets with what stands for it: "debhet,typed"
	cuda  bool   // it is trained by the emulated GPU
	args  []string
}

// runs are the trainings, one of every way through the code of training.
func runs() (list []run) {
	for _, line := range strings.Split(strings.TrimSpace(`
memory          | sbm               | --epochs 4 --batch-size 100
convolution     | cora,sbm          | --epochs 3 --model gcn --batch-size 200 --norm batch
hanoi history   | sbm               | --epochs 3 --plan hanoi --buffer 3 --history --batch-size 60
mixed partitions| sbm               | --epochs 3 --plan hanoi --buffer 3 --absent ignore --batch-size 60
plan rows       | sbm               | --epochs 3 --plan rows --batch-size 100
types           | debhet,typed      | --epochs 2 --model rsage --fanouts 5,5 --batch-size 100
types table     | typed             | --epochs 3 --model rgcn --fanouts 5,5 --batch-size 20 --vectors table
types history   | typed             | --epochs 3 --model rsage --fanouts 5,5 --batch-size 20 --plan hanoi --buffer 2 --history
edge features   | weighted          | --epochs 3 --model gat --edge-features weight --batch-size 100
edge weights    | weighted          | --epochs 3 --edge-weights --batch-size 100
accumulate      | sbm               | --epochs 3 --batch-size 50 --accumulate 3
until it stops  | sbm               | --epochs auto --patience 2 --batch-size 100
links           | wn18rr,kg         | --epochs 2 --batch-size 5000 --negatives 50 --dim 16
links encoder   | kg                | --epochs 3 --batch-size 500 --negatives 50 --dim 16 --encoder sage --lr .05
links comet     | kg                | --epochs 3 --batch-size 500 --negatives 50 --dim 16 --plan comet --buffer 4
links shadow    | kg                | --epochs 3 --batch-size 500 --negatives 50 --dim 16 --encoder sage --plan comet --buffer 4 --optimizer adam --config absent=shadow
links features  | similar           | --epochs 3 --batch-size 500 --negatives 50 --features x --encoder sage --fanouts 5 --no-embeddings --dim 16
temporal        | moments           | --task temporal --epochs 3 --batch-size 100 --negatives 20 --dim 8
temporal learned| gitedits,moments  | --task temporal --epochs 2 --batch-size 4000 --negatives 50 --dim 8 --time-encoding learned --eval-edges 200
cuda recorded   | sbm               | --epochs 4 --batch-size 100
cuda cache      | sbm               | --epochs 2 --batch-size 100 --plan hanoi --buffer 3
cuda links      | kg                | --epochs 2 --batch-size 1000 --negatives 50 --dim 16
`), "\n") {
		part := strings.Split(line, "|")
		r := run{name: strings.TrimSpace(part[0]), graph: strings.TrimSpace(part[1]), args: strings.Fields(part[2])}
		r.cuda = strings.HasPrefix(r.name, "cuda")
		r.args = append(r.args, "--device", map[bool]string{true: "cuda", false: "host"}[r.cuda], "--seed", "7")
		list = append(list, r)
	}
	return list
}
