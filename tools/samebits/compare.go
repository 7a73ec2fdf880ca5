package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// sameness is a run's row of the table.
type sameness struct{ graph, losses, parameters, resumed, fromOld string }

const (
	equalBits = "equal"
	// early is a run that ended before it could be interrupted: it shows nothing, and counts as different.
	early = "ended before its interruption"
)

// all reports whether nothing differs. A checkpoint of the old build may be refused, if that is said.
func (s *sameness) all() bool {
	return s.losses == equalBits && s.parameters == equalBits && s.resumed == equalBits && (s.fromOld == equalBits || strings.HasPrefix(s.fromOld, "refused: "))
}

// outcome is what a training gave.
type outcome struct {
	epochs     map[int]map[string]any // by number: losses and metrics
	summary    map[string]any
	parameters string // checksums of the model and of the store's tables
}

// metrics are the fields of events that must be equal.
var metrics = []string{"loss", "train_accuracy", "valid_accuracy", "test_accuracy", "valid", "test", "best", "batches", "sampled_edges", "best_epoch", "train_loss", "test_mrr",
	"test_hits10", "test_raw_mrr", "valid_mrr", "valid_rule", "test_rule", "checked_edges"}

// compare trains with both builds, undisturbed and interrupted.
func (r *run) compare(ctx context.Context, o *options) (s sameness, err error) {
	dir, name, err := o.store(ctx, r.graph)
	if err != nil {
		return s, err
	}
	s.graph = name
	of := func(label string, builds ...string) (*outcome, string, error) {
		work := filepath.Join(o.dir, "run-"+strings.ReplaceAll(r.name, " ", "-")+"-"+label)
		if err := os.RemoveAll(work); err != nil {
			return nil, "", err
		}
		if err := os.CopyFS(filepath.Join(work, "store"), os.DirFS(dir)); err != nil {
			return nil, "", err
		}
		return r.train(ctx, work, builds[0] == o.old, builds...)
	}
	old, _, err := of("old", o.old)
	if err != nil {
		return s, err
	}
	whole, _, err := of("new", o.new)
	if err != nil {
		return s, err
	}
	s.losses, s.parameters = differs(old.epochs, whole.epochs), equalBits
	if s.losses == equalBits {
		s.losses = differs(map[int]map[string]any{0: old.summary}, map[int]map[string]any{0: whole.summary})
	}
	if old.parameters != whole.parameters {
		s.parameters = "DIFFER"
	}
	for _, again := range []struct {
		verdict *string
		label   string
		build   string
	}{{&s.resumed, "resumed", o.new}, {&s.fromOld, "from-old", o.old}} {
		got, refused, err := of(again.label, again.build, o.new)
		switch {
		case err != nil:
			return s, err
		case refused != "":
			*again.verdict = refused
		case old.parameters != got.parameters:
			*again.verdict = "parameters DIFFER"
		default:
			*again.verdict = differs(old.epochs, got.epochs)
		}
	}
	return s, nil
}

// differs says of which epochs losses or metrics are not equal.
func differs(a, b map[int]map[string]any) string {
	var of []string
	for _, e := range slices.Sorted(maps.Keys(a)) {
		if !reflect.DeepEqual(a[e], b[e]) {
			of = append(of, fmt.Sprint(e))
		}
	}
	if len(of) > 0 || len(a) != len(b) {
		return "DIFFER in epochs " + strings.Join(of, ",")
	}
	return equalBits
}

// train trains in a folder with one build, or begins with the first, which is interrupted in its second epoch, and resumes with
// the second. The old build made no checkpoints within the epochs of edges at moments. refused is why it was not possible.
func (r *run) train(ctx context.Context, work string, old bool, builds ...string) (out *outcome, refused string, err error) {
	out = &outcome{epochs: map[int]map[string]any{}}
	model := filepath.Join(work, "model.gsm")
	args := append([]string{"train", filepath.Join(work, "store"), "--json"}, r.args...)
	if i := slices.Index(args, "--config"); i > 0 { // an option that builds spell differently on a command line, but not in a file
		path := filepath.Join(work, "run.yaml")
		if err := os.WriteFile(path, []byte(strings.Replace(args[i+1], "=", ": ", 1)), 0o600); err != nil {
			return nil, "", err
		}
		args[i+1] = path
	}
	if !strings.HasPrefix(r.name, "links") && r.name != "cuda links" {
		args = append(args, "--save", model)
	}
	for i, build := range builds {
		first := i < len(builds)-1
		more := args
		if len(builds) > 1 && !(old && r.temporal()) {
			more = append(slices.Clip(args), "--checkpoint-every", "1steps")
		}
		if i > 0 {
			more = append(slices.Clip(more), "--resume")
		}
		interrupted, text, err := out.read(ctx, build, more, first)
		if err != nil {
			return nil, "", err
		}
		if first && !interrupted {
			return out, early, nil
		}
		if text != "" {
			return out, "refused: " + text, nil
		}
	}
	out.parameters, err = parameters(ctx, filepath.Join(work, "store"), model)
	return out, "", err
}

func (r *run) temporal() bool { return slices.Contains(r.args, "temporal") }

// moved is what a build says of a flag that it knows as an experiment by now, such as "say --x absent=shadow".
var moved = regexp.MustCompile(`say --x ([a-z-]+)=(\S+)`)

// read is events of the flags as a build knows them.
func (out *outcome) read(ctx context.Context, build string, args []string, interrupt bool) (interrupted bool, refused string, err error) {
	for {
		interrupted, refused, err = out.events(ctx, build, args, interrupt)
		if err == nil {
			return interrupted, refused, nil
		}
		to := moved.FindStringSubmatch(err.Error())
		if to == nil {
			return interrupted, refused, err
		}
		at := slices.Index(args, "--"+to[1])
		if at < 0 {
			return interrupted, refused, err
		}
		args = slices.Replace(slices.Clone(args), at, at+2, "--x", to[1]+"="+to[2])
	}
}

// events runs a build and takes its events. interrupt ends it in the middle of its second epoch, or after the first where it says
// nothing in between; it reports whether it did. refused is what a build says that does not resume.
func (out *outcome) events(ctx context.Context, build string, args []string, interrupt bool) (interrupted bool, refused string, err error) {
	cmd := exec.CommandContext(ctx, build, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return false, "", err
	}
	if err := cmd.Start(); err != nil {
		return false, "", err
	}
	sent := false
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e map[string]any
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return false, "", fmt.Errorf("%s: %w", lines.Text(), err)
		}
		number := func(name string) int { x, _ := e[name].(float64); return int(x) }
		middle := false
		switch e["event"] {
		case "epoch":
			out.epochs[number("epoch")] = only(e)
			middle = !slices.Contains(args, "--checkpoint-every")
		case "summary":
			out.summary = only(e)
		case "checkpoint":
			middle = number("epochs") == 1 && (number("batch") > 0 || number("step") > 0)
		}
		if interrupt && middle && !sent {
			sent = true
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				return false, "", err
			}
		}
	}
	err = cmd.Wait()
	if err == nil {
		return false, "", nil
	}
	if interrupt && sent {
		return true, "", nil
	}
	if text := strings.TrimSpace(stderr.String()); slices.Contains(args, "--resume") && strings.Contains(text, "resume") {
		return false, text, nil
	}
	return false, "", fmt.Errorf("%s %s: %w: %s", build, strings.Join(args, " "), err, stderr.Bytes())
}

// only is what of an event must be equal.
func only(e map[string]any) map[string]any {
	m := map[string]any{}
	for _, name := range metrics {
		if v, ok := e[name]; ok {
			if of, ok := v.(map[string]any); ok {
				maps.DeleteFunc(of, func(k string, _ any) bool { return strings.Contains(k, "seconds") || strings.Contains(k, "bytes") })
			}
			m[name] = v
		}
	}
	return m
}
