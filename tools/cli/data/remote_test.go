package data_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// A store goes to an address, is listed, verified, pulled, brought up to date, and pruned there.
func TestPushPullCommands(t *testing.T) {
	dir := t.TempDir()
	in, shop, there := filepath.Join(dir, "in"), filepath.Join(dir, "shop.gstore"), filepath.Join(dir, "there.gstore")
	address := "file://" + filepath.ToSlash(filepath.Join(dir, "bucket"))
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "200", "--edges", "1000", "--features", "4", "--classes", "2", "--communities", "2", "--quiet")
	clitest.MustRun(t, "ingest", in, shop, "--partitions", "2", "--quiet")
	said := func(want string, args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(t, args...)
		if code != cli.ExitOK || !strings.Contains(out+errs, want) {
			t.Fatalf("%v: exit code %d, %s%s, expected %q", args, code, out, errs, want)
		}
		return out
	}
	said("snapshot 1 holds", "push", shop, address, "--note", "first")
	said("nothing to push", "push", shop, address)
	said("version 1, 200 nodes, ", "pull", address, there)
	said("nothing to pull", "pull", address, there)
	clitest.MustRun(t, "train", shop, "--epochs", "1", "--quiet")
	said("snapshot 2 holds", "push", shop, address)
	said("of snapshot 2", "pull", address, there)
	clitest.MustRun(t, "eval", there, "--quiet")
	clitest.MustRun(t, "verify", there, "--quiet")
	if list := said("first", "ls", address); strings.Count(list, "\n") != 3 {
		t.Errorf("listed:\n%s", list)
	}
	said(`"event":"snapshot"`, "ls", address, "--json")
	lazy := filepath.Join(dir, "lazy.gstore")
	said("of snapshot 2", "pull", address, lazy, "--lazy", "--cache-size", "1MiB")
	for _, args := range [][]string{{"eval", lazy}, {"predict", lazy, "3"}, {"inspect", lazy}, {"plan", lazy}, {"train", lazy, "--epochs", "1", "--plan", "hanoi", "--buffer", "1"},
		{"train", lazy, "--epochs", "1", "--plan", "rows"}, {"export", lazy, filepath.Join(dir, "out")}, {"precompute", lazy}, {"partition", lazy, "--partitions", "3"}, {"verify", lazy}} {
		clitest.MustRun(t, append(args, "--quiet")...)
	}
	said("2 snapshot(s), whole", "verify", address)
	said("removed 1 snapshot(s)", "prune", address)
	said("1 snapshot(s), whole", "verify", address)

	refused := func(code int, want string, args ...string) {
		t.Helper()
		if got, _, errs := clitest.Run(t, args...); got != code || !strings.Contains(errs, want) {
			t.Errorf("%v: exit code %d, %s, expected %d, %q", args, got, errs, code, want)
		}
	}
	refused(cli.ExitUsage, "expected s3://", "push", shop, there)
	refused(cli.ExitUsage, "without --lazy", "pull", address, there, "--cache-size", "1MiB")
	refused(cli.ExitUsage, "gstore pull", "drop", address, "--run", "1")
	refused(cli.ExitUsage, "gstore push", "ingest", in, address)
	refused(cli.ExitUsage, "of an address say --snapshot", "verify", address, "--version", "1")
	refused(cli.ExitUsage, "of a store say --version", "verify", shop, "--snapshot", "1")
	refused(cli.ExitFailed, "holds no store", "ls", address+"-none")
	refused(cli.ExitFailed, "gstore ls lists", "pull", address, filepath.Join(dir, "x"), "--snapshot", "1")
	clitest.MustRun(t, "train", there, "--epochs", "1", "--quiet")
	refused(cli.ExitFailed, "has run 2", "pull", address, there)
	objects, err := filepath.Glob(filepath.Join(dir, "bucket", "objects", "*", "*"))
	if err != nil || len(objects) == 0 {
		t.Fatal(objects, err)
	}
	for _, o := range objects { // all: some are of the snapshot that was pruned, which stay a day longer
		if err := os.WriteFile(o, []byte("not what it was"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	refused(cli.ExitCorrupt, "damaged: ", "verify", address)
}

// Commands take an address where they take a store; what they write is there when they have ended.
func TestCommandsByAddress(t *testing.T) {
	dir := t.TempDir()
	in, shop, home := filepath.Join(dir, "in"), filepath.Join(dir, "shop.gstore"), filepath.Join(dir, "home")
	address := "file://" + filepath.ToSlash(filepath.Join(dir, "buckets", "shop.gstore"))
	clitest.MustRun(t, "generate", "sbm", in, "--nodes", "200", "--edges", "1000", "--features", "4", "--classes", "2", "--communities", "2", "--quiet")
	clitest.MustRun(t, "ingest", in, shop, "--partitions", "2", "--quiet")
	clitest.MustRun(t, "push", shop, address, "--quiet")
	out := func(args ...string) string {
		t.Helper()
		code, out, errs := clitest.Run(t, append(args, "--cache-dir", home, "--cache-size", "64MiB")...)
		if code != cli.ExitOK {
			t.Fatalf("%v: exit code %d: %s", args, code, errs)
		}
		return out
	}
	snapshots := func() int { return strings.Count(out("ls", address), "\n") - 1 }

	for _, args := range [][]string{{"inspect", address}, {"plan", address}, {"versions", address}, {"export", address, filepath.Join(dir, "out")}, {"walks", address, filepath.Join(dir, "walks.npy")}} {
		out(args...)
	}
	if n := snapshots(); n != 1 {
		t.Fatalf("%d snapshots after commands that read", n)
	}
	out("train", address, "--epochs", "1", "--seed", "3", "--quiet")
	if n := snapshots(); n != 2 {
		t.Fatalf("%d snapshots after a training", n)
	}
	more := filepath.Join(dir, "more.csv")
	if err := os.WriteFile(more, []byte("src,dst\n3,4\n5,6\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if said := strings.Split(strings.TrimSpace(out("train", address, "--epochs", "1", "--seed", "3", "--json")), "\n"); !strings.Contains(said[len(said)-2], `"event":"pushed"`) || !strings.Contains(said[len(said)-1], `"event":"summary"`) {
		t.Errorf("a training ends with %q", said[len(said)-2:])
	}
	out("partition", address, "--partitions", "3", "--quiet")
	out("append", address, more)
	out("rollback", address)
	if n := snapshots(); n != 6 {
		t.Fatalf("%d snapshots after a partitioning, an append and a rollback", n)
	}
	clitest.MustRun(t, "pull", address, shop, "--quiet")
	clitest.MustRun(t, "train", shop, "--epochs", "1", "--seed", "4", "--quiet")
	clitest.MustRun(t, "push", shop, address, "--quiet")
	if local, far := out("eval", shop, "--json"), out("eval", address, "--json"); !strings.Contains(far, `"snapshot":7`) || accuracy(t, local) != accuracy(t, far) {
		t.Errorf("evaluated here:\n%s\nand by the address:\n%s", local, far)
	}
	out("predict", address, "3")
	out("report", address, "-o", filepath.Join(dir, "report.html"))
	if stores, err := filepath.Glob(filepath.Join(home, "shop-*", "shop.gstore")); err != nil || len(stores) != 1 {
		t.Errorf("it was followed in %v, %v", stores, err)
	}
}

// accuracy is the test accuracy in the summary of an evaluation.
func accuracy(t *testing.T, out string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, `"test_accuracy":`)
	if !ok {
		t.Fatalf("no accuracy in\n%s", out)
	}
	return rest[:strings.IndexAny(rest, ",}")]
}
