package zoo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
)

// command runs the case's command and its oracle.
func (r *run) command() error {
	store := r.at("store")
	switch r.c.Get("command") {
	case "ingest":
		return nil
	case "export":
		for _, format := range []string{"numpy", "tsv", "parquet"} {
			if err := r.again(format); err != nil {
				return err
			}
		}
		return nil
	case "walks":
		return r.walks()
	case "plan":
		_, err := r.budgeted(append(append([]string{"plan", store}, r.flags()...), "--measure", "0", "--json")...)
		return err
	case "partition":
		if _, err := r.must("partition", store, "--report", "--json"); err != nil {
			return err
		}
		if _, err := r.budgeted("partition", store, "--partitioner", "fennel", "--threads", r.c.Get("threads"), "--quiet"); err != nil {
			return err
		}
		return r.holds("store")
	}
	train := r.must
	if r.c.Is("command", "train") {
		train = r.budgeted
	}
	if r.c.Is("command", "resume") {
		if err := os.CopyFS(r.at("other"), os.DirFS(store)); err != nil {
			return err
		}
	}
	o, err := r.train(train)
	if err != nil {
		return err
	}
	if err := r.checked("losses", o.Args, finite(o.Stdout, r.c.Is("values", "large"))); err != nil {
		return err
	}
	if r.c.Is("command", "from") {
		if o, err = r.from(o); err != nil {
			return err
		}
	}
	if r.c.Task() != "temporal" && !r.c.Is("command", "train", "eval") {
		if err := r.eval(r.must); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(r.at("answers")), os.RemoveAll(r.at("model"))); err != nil {
			return err
		}
	}
	switch r.c.Get("command") {
	case "resume":
		return r.otherThreads(o)
	case "from": // it was evaluated
		return nil
	case "train":
		if r.c.Task() != "temporal" {
			return r.eval(r.must)
		}
		return r.predict(r.must)
	case "eval":
		return r.eval(r.budgeted)
	case "predict":
		return r.predict(r.budgeted)
	case "nearest":
		_, err := r.budgeted("predict", store, r.g.Nodes[0].ID, "--nearest", "cosine", "--json")
		return err
	case "export-model":
		_, err := r.budgeted("export", store, r.at("model"), "--what", "model", "--quiet")
		return err
	}
	return fmt.Errorf("zoo: no command %s", r.c.Get("command"))
}

// from trains a run that begins with the table of the first one, which it drops.
func (r *run) from(first *Outcome) (*Outcome, error) {
	args := []string{"train", first.Args[1], "--from", firstTable, "--epochs", "1", "--table", "embeddings", "--json"}
	for _, flag := range []string{"--threads", "--plan", "--buffer", "--device", "--eval-every"} {
		if value := FlagOf(first.Args, flag); value != "" {
			args = append(args, flag, value)
		}
	}
	o, err := r.budgeted(args...)
	if err != nil {
		return nil, err
	}
	if err := r.checked("losses", o.Args, finite(o.Stdout, r.c.Is("values", "large"))); err != nil {
		return nil, err
	}
	_, err = r.must("drop", first.Args[1], "--table", firstTable, "--quiet")
	return o, err
}

// firstTable is the table of a run that another one begins with.
const firstTable = "first"

// events decodes --json output.
func events(stdout string) (list []map[string]any, err error) {
	lines := bufio.NewScanner(strings.NewReader(stdout))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		e := map[string]any{}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %.200q of --json: %w", lines.Text(), err)
		}
		list = append(list, e)
	}
	return list, lines.Err()
}

// summaryOf is the last event.
func summaryOf(stdout string) (map[string]any, error) {
	list, err := events(stdout)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 || list[len(list)-1]["event"] != "summary" {
		return nil, errors.New("--json ends without a summary")
	}
	return list[len(list)-1], nil
}

// finite checks that each epoch has a loss, and that it is a number.
func finite(stdout string, extreme bool) error {
	list, err := events(stdout)
	if err != nil {
		return err
	}
	epochs := 0
	for _, e := range list {
		if e["event"] != "epoch" {
			continue
		}
		epochs++
		if _, ok := e["loss"].(float64); !ok && !extreme {
			return fmt.Errorf("the loss of epoch %v is %v", e["epoch"], e["loss"])
		}
	}
	if epochs == 0 {
		return errors.New("no epoch was reported")
	}
	return nil
}

// losses are those of the epochs, as they were written.
func losses(stdout string) (all []any) {
	list, err := events(stdout)
	if err != nil {
		return nil
	}
	for _, e := range list {
		if e["event"] == "epoch" {
			all = append(all, e["loss"])
		}
	}
	return all
}

// otherThreads trains once more on a copy of the store with another number of threads: the losses are the same to the bit.
func (r *run) otherThreads(first *Outcome) error {
	args := SetFlag(first.Args, "--threads", "2")
	if FlagOf(first.Args, "--threads") == "2" {
		args = SetFlag(first.Args, "--threads", "1")
	}
	args[1] = r.at("other")
	o, err := r.must(args...)
	if err != nil {
		return err
	}
	a, b := losses(first.Stdout), losses(o.Stdout)
	if fmt.Sprint(a...) != fmt.Sprint(b...) {
		err = fmt.Errorf("losses %v with --threads %s, and %v with %s", a, FlagOf(first.Args, "--threads"), b, FlagOf(args, "--threads"))
	}
	return r.checked("threads", args, err)
}
