package zoo

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/tools/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }

// gstore runs this binary as gstore.
func gstore(t *testing.T) Gstore {
	t.Helper()
	old := debug.SetGCPercent(25) // a child's peak counts what this process had when it began
	t.Cleanup(func() { debug.SetGCPercent(old) })
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Gstore{Path: exe, Env: []string{"GSTORE_TEST_ARGS={ARGS}"}, Timeout: 3 * time.Minute}
}

// lines reads a file of testdata without its comments.
func lines(t *testing.T, name string) (list []string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// TestFound runs the cases that failed once.
func TestFound(t *testing.T) {
	g := gstore(t)
	for _, line := range lines(t, "found") {
		c, err := ParseCase(line)
		if err != nil {
			t.Fatal(err)
		}
		res, err := Run(t.Context(), &g, c, filepath.Join(t.TempDir(), "case"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range res.Found {
			t.Errorf("%s\n  gstore %s\n  %s", f.Replay, strings.Join(f.Args, " "), f.What)
		}
	}
}

// TestZoo runs cases of a seed for 30 seconds, or as long as GSTORE_ZOO says. What testdata/open lists is known and not mended yet.
func TestZoo(t *testing.T) {
	o := Options{Gstore: gstore(t), Dir: t.TempDir(), Seed: 1, Wild: .1, Time: 30 * time.Second}
	if text := os.Getenv("GSTORE_ZOO"); text != "" {
		var err error
		if o.Time, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	open := lines(t, "open")
	r, err := RunAll(t.Context(), o, &strings.Builder{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r.Print(&out)
	t.Log(out.String())
	for _, f := range r.Found {
		if !slices.ContainsFunc(open, func(known string) bool { return strings.Contains(f.What, known) }) {
			t.Errorf("%s\n  gstore %s\n  %s", f.Replay, strings.Join(f.Args, " "), f.What)
		}
	}
	if r.Checked["content"] == 0 {
		t.Error("no store was compared with its graph")
	}
}

// TestRemedies: what is read from messages.
func TestRemedies(t *testing.T) {
	args := []string{"train", "s", "--mem", "1MiB", "--plan", "rows", "--history"}
	for message, want := range map[string]string{
		"budget too small: 1.0 MiB; the smallest that works is 73MiB, or less with more partitions": "train s --mem 73MiB --plan rows --history",
		"use --plan memory":                                       "train s --mem 1MiB --plan memory --history",
		"train without --history":                                 "train s --mem 1MiB --plan rows",
		"--overwrite replaces it":                                 "train s --mem 1MiB --plan rows --history --overwrite",
		"--plan rows needs nodes":                                 "",
		"--table NAME keeps both":                                 "",
		"say --x plan=rows":                                       "train s --mem 1MiB --history --x plan=rows",
		"is it a header (--header yes) or an edge (--header no)?": "train s --mem 1MiB --plan rows --history --header no",
		"give --eval-every -1, or more.":                          "train s --mem 1MiB --plan rows --history --eval-every -1",
	} {
		got := ""
		if l := Remedies(args, message); len(l) > 0 {
			got = strings.Join(l[0], " ")
		}
		if got != want {
			t.Errorf("%q: %q, expected %q", message, got, want)
		}
	}
}

// TestVerdict: how outcomes are judged.
func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		o    Outcome
		want Verdict
	}{
		{Outcome{}, Done},
		{Outcome{Code: 2, Stderr: "gstore: --plan x: expected rows"}, Refused},
		{Outcome{Code: 2, Stderr: "panic: index out of range\n\ngoroutine 1"}, Defect},
		{Outcome{Code: 1, Stderr: "gstore: budget too small; the smallest that works is 7MiB"}, Refused},
		{Outcome{Code: 1, Stderr: "gstore: nn: shapes do not fit"}, Defect},
		{Outcome{Code: 1, Stderr: "gstore: something else"}, Defect},
		{Outcome{Code: 1, Args: []string{"ingest", "/in", "/s"}, Stderr: "gstore: /in/edges.tsv: line 2: no number"}, Refused},
		{Outcome{Code: 3, Stderr: "gstore: corrupt"}, Defect},
		{Outcome{TimedOut: true}, Defect},
	} {
		if got := c.o.Verdict(); got != c.want {
			t.Errorf("%+v is %s, expected %s", c.o, got, c.want)
		}
	}
}

// TestFindsAPanic: a gstore that panics is found, with the case and the command.
func TestFindsAPanic(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("#!/bin/sh\necho 'panic: no' >&2\nexit 2\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	res, err := Run(context.Background(), &Gstore{Path: bad, Timeout: 3 * time.Minute}, Case{"nodes": "5"}, filepath.Join(dir, "case"))
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Found) != 1 || res.Found[0].Replay != "nodes=5" || !strings.Contains(res.Found[0].What, "panic: no") {
		t.Errorf("found %+v, expected the panic", res.Found)
	}
}

// TestSites: refusals are found in the source, and told from those that were met.
func TestSites(t *testing.T) {
	sites, err := Sites("../..")
	if err != nil {
		t.Fatal(err)
	}
	find := func(text string) *Site {
		for _, s := range sites {
			if strings.Contains(s.Format, text) {
				return &s
			}
		}
		t.Fatalf("%q is not among %d refusals", text, len(sites))
		return nil
	}
	if s := find("unknown command %q: did you mean %s"); !s.Met(map[string]bool{`unknown command "trian": did you mean train?`: true}) || s.Met(map[string]bool{"unknown": true}) {
		t.Errorf("%+v is not met by its own message, or by another", s)
	}
	find("partitions for %d nodes would leave partitions empty") // wraps ErrOption
}
