package data_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gstore/gstore/gpu/precompute"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
	"github.com/gstore/gstore/tools/recipe"
)

func ingestWithin(t *testing.T, ctx context.Context, args ...string) (int, string) {
	t.Helper()
	var out, errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, append([]string{"ingest", "--quiet"}, args...), strings.NewReader(""), &out, &errs)
	}()
	select {
	case c := <-code:
		return c, errs.String()
	case <-time.After(60 * time.Second):
		t.Fatalf("ingest %v hangs", args)
	}
	return 0, ""
}

func fifo(t *testing.T, path string) string {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	return path
}

// A pipe as INPUT is copied first, like standard input; one among the files of an input, which would
// be read twice, is refused; and one that nobody writes to does not keep an interrupted ingest.
func TestPipesAsInput(t *testing.T) {
	dir := t.TempDir()
	pipe := fifo(t, filepath.Join(dir, "pipe"))
	go func() { _ = os.WriteFile(pipe, []byte("0 1\n1 2\n2 0\n"), 0o600) }()
	out := filepath.Join(dir, "a.gstore")
	if code, errs := ingestWithin(t, t.Context(), pipe, out); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}

	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	fifo(t, filepath.Join(folder, "edge_index.npy"))
	if code, errs := ingestWithin(t, t.Context(), folder, filepath.Join(dir, "b.gstore")); code != cli.ExitFailed || !strings.Contains(errs, "a pipe or device") {
		t.Errorf("exit %d: %s", code, errs)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if code, errs := ingestWithin(t, ctx, fifo(t, filepath.Join(dir, "silent")), filepath.Join(dir, "c.gstore")); code == cli.ExitOK {
		t.Errorf("exit %d: %s", code, errs)
	}
	// the reader that waits is let go
	if f, err := os.OpenFile(filepath.Join(dir, "silent"), os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = f.Close()
	}
}

// Ids are bounded before anything is made of their number: one stray id of 2^31, one of 2^63-1.
func TestStrayIDs(t *testing.T) {
	dir := t.TempDir()
	for id, want := range map[string]string{"2147483647": "node 2147483647 in a graph of 2 edges", "9223372036854775807": "node 9223372036854775807, expected less than"} {
		in := filepath.Join(dir, id+".tsv")
		if err := os.WriteFile(in, []byte("0\t1\n1\t"+id+"\n"), 0o666); err != nil {
			t.Fatal(err)
		}
		code, errs := ingestWithin(t, t.Context(), in, filepath.Join(dir, id), "--ids", "dense", "--mem", "16GiB")
		if code != cli.ExitFailed || !strings.Contains(errs, want) || !strings.Contains(errs, id+".tsv") {
			t.Errorf("%s: exit %d: %s", id, code, errs)
		}
	}
}

// An ingest that was committed and failed in its hop is finished by --resume; without it the store is in the way.
func TestResumeMakesTheHopAlone(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "s.gstore")
	run := func(args ...string) (int, string) {
		var b bytes.Buffer
		return cli.Run(t.Context(), args, strings.NewReader(""), &b, &b), b.String()
	}
	for _, args := range [][]string{
		{"generate", "sbm", in, "--nodes", "200", "--edges", "1000", "--features", "4", "--classes", "2", "--communities", "2"},
		{"ingest", in, out, "--partitions", "2"}, // as one ends that is killed before its hop
	} {
		if code, text := run(args...); code != cli.ExitOK {
			t.Fatalf("%v: %s", args, text)
		}
	}
	if code, text := run("ingest", in, out, "--partitions", "2", "--precompute-hops", "1"); code != cli.ExitFailed || !strings.Contains(text, "exists") {
		t.Errorf("without --resume: exit %d, %s", code, text)
	}
	for range 2 { // once more changes nothing
		if code, text := run("ingest", in, out, "--partitions", "2", "--precompute-hops", "1", "--resume"); code != cli.ExitOK {
			t.Fatalf("exit %d, %s", code, text)
		}
		if _, text := run("inspect", out); !strings.Contains(text, "x.hop1") {
			t.Errorf("no column x.hop1:\n%s", text)
		}
	}
}

// A hop that nobody asked for, as the recipe chooses it, is finished alike: the store says that it is due.
func TestResumeMakesTheHopThatWasChosen(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "s.gstore")
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "200", "--edges", "1000", "--features", "4", "--classes", "2", "--communities", "2", "--quiet")
	src, err := formats.Open(in, formats.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = ingest.Run(t.Context(), out, src, ingest.Options{Partitions: 2, Later: recipe.Hop(precompute.Options{})}) // killed after its commit
	if err := errors.Join(err, src.Close()); err != nil {
		t.Fatal(err)
	}
	if code, _, text := clitest.Run(t, "ingest", in, out, "--partitions", "2"); code != cli.ExitFailed || !strings.Contains(text, "its hop is not made") {
		t.Errorf("without --resume: exit %d, %s", code, text)
	}
	if _, text, _ := clitest.Run(t, "inspect", out); strings.Contains(text, "x.hop1") {
		t.Errorf("a refused ingest made the hop:\n%s", text)
	}
	clitest.MustRun(t, "ingest", in, out, "--partitions", "2", "--resume", "--quiet")
	if _, text, _ := clitest.Run(t, "inspect", out); !strings.Contains(text, "x.hop1") {
		t.Errorf("no column x.hop1:\n%s", text)
	}
	if code, _, text := clitest.Run(t, "ingest", in, out, "--partitions", "2", "--resume"); code != cli.ExitFailed || strings.Contains(text, "its hop") {
		t.Errorf("once more: exit %d, %s", code, text)
	}
}
