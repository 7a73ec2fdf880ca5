package main

import "strconv"

// temporalChecks are those of a graph whose edges have times.
func (g graph) temporalChecks(at func(string) string, store, work string) []check {
	train := []string{"train", store, "--task", "temporal", "--epochs", "1"}
	with := func(name string, args ...string) check {
		return check{name: "train temporal " + name, args: append(train[:len(train):len(train)], args...)}
	}
	return []check{
		with("1 thread", "--threads", "1"),
		with("4 threads", "--threads", "4"),
		with("learned times", "--time-encoding", "learned"),
		with("few in a batch", "--batch-size", "37", "--negatives", "11", "--dim", "7", "--x", "no-recency"),
		{name: "eval temporal", args: []string{"eval", store}},
		{name: "predict temporal", args: []string{"predict", store, "--input", at("nodes.txt"), "--out", work}},
	}
}

// widestChecks are those of a graph of the widest rows, whose model is most of what a run holds.
func (g graph) widestChecks(store string) (checks []check) {
	for _, hidden := range []int{512, 1024} {
		for _, threads := range []int{1, 2, 4} {
			h, t := strconv.Itoa(hidden), strconv.Itoa(threads)
			checks = append(checks, check{name: "train widest, hidden " + h + ", " + t + " threads",
				args: []string{"train", store, "--epochs", "2", "--hidden", h, "--threads", t}})
		}
	}
	return append(checks,
		check{name: "train widest, history", args: []string{"train", store, "--epochs", "1", "--hidden", "512", "--plan", "hanoi", "--history"}},
		check{name: "train widest, gat", args: []string{"train", store, "--epochs", "1", "--hidden", "512", "--model", "gat"}},
		check{name: "eval widest", args: []string{"eval", store}},
	)
}
