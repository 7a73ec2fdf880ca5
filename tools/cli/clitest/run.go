// Package clitest runs gstore's command line in tests, and makes the files that they begin with.
package clitest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gstore/gstore/partitioner"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/command"
)

// What tests' own processes have beside a command's heap, which budgets are not about: those are measured in processes of their own.
func init() { command.HeapBeside = 1 << 30 }

// Run runs one command line and returns its exit code and output.
func Run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = cli.Run(context.Background(), args, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// Events runs a command line with --json and returns its events.
func Events(t *testing.T, args ...string) []map[string]any {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(t.Context(), append(args, "--json"), strings.NewReader(""), &out, &errs); code != cli.ExitOK {
		t.Fatalf("gstore %v: exit code %d: %s", args, code, errs.String())
	}
	var events []map[string]any
	for line := range strings.Lines(out.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

// Losses are those of the epochs.
func Losses(events []map[string]any) []float64 {
	var l []float64
	for _, e := range events {
		if e["event"] == "epoch" {
			l = append(l, e["loss"].(float64))
		}
	}
	return l
}

// MustRun runs a command line that must not fail.
func MustRun(t *testing.T, args ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(context.Background(), args, strings.NewReader(""), &out, &errs); code != cli.ExitOK {
		t.Fatalf("gstore %v: exit %d: %s", args, code, errs.String())
	}
}

// Quality runs a command line whose summary has a quality, and returns it.
func Quality(t *testing.T, args ...string) partitioner.Quality {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cli.Run(context.Background(), append(args, "--json"), strings.NewReader(""), &out, &errs); code != cli.ExitOK {
		t.Fatalf("gstore %v: exit %d: %s", args, code, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var summary struct {
		Quality partitioner.Quality `json:"quality"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &summary); err != nil {
		t.Fatal(err)
	}
	return summary.Quality
}

// MustJSON encodes v.
func MustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ByName decodes --json output, by the events' names.
func ByName(t *testing.T, stdout string) map[string][]map[string]any {
	t.Helper()
	found := map[string][]map[string]any{}
	for line := range strings.Lines(stdout) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		name, _ := e["event"].(string)
		found[name] = append(found[name], e)
	}
	return found
}

// childArgs, set in the environment, makes the test binary run as gstore with these arguments.
const childArgs = "GSTORE_TEST_ARGS"

// Main runs a package's tests, or gstore where [Command] asks for it: call it from TestMain.
func Main(m *testing.M) {
	if args, ok := os.LookupEnv(childArgs); ok {
		os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
		command.HeapBeside = 0
		os.Exit(cli.Main())
	}
	os.Exit(m.Run())
}

// Command is gstore as a process of its own, to be started, for tests that signal it.
func Command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childArgs+"="+strings.Join(args, "\n"))
	return cmd
}

// Child runs gstore in a process of its own and returns its summary and what it said otherwise.
func Child(t *testing.T, args ...string) (summary map[string]any, stderr string, err error) {
	t.Helper()
	cmd := Command(args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	for line := range bytes.Lines(out.Bytes()) {
		summary = map[string]any{}
		if jsonErr := json.Unmarshal(line, &summary); jsonErr != nil {
			t.Fatalf("%q: %v", line, jsonErr)
		}
	}
	return summary, errs.String(), err
}
