package clitest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/gstore/gstore/tools/cli/command"
)

// smallest finds the budget that a refusal names, in MiB.
var smallest = regexp.MustCompile(`the smallest that works is (\d+) ?MiB`)

// KeepsBudget runs gstore, in processes of its own, with a budget that is too small, with the smallest that the refusal names and with
// half as much more. The last two must work and stay below what they were given; before each of them prepare, which may be nil, is called.
func KeepsBudget(t *testing.T, prepare func(), args ...string) {
	t.Helper()
	if prepare == nil {
		prepare = func() {}
	}
	prepare()
	said, _, err := withBudget(t, 1, args)
	found := smallest.FindStringSubmatch(said)
	if err == nil || found == nil {
		t.Errorf("gstore %v within 1 MiB: %q (%v), expected a refusal that names the smallest budget", args, said, err)
		return
	}
	least, err := strconv.ParseInt(found[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, mib := range []int64{least, least + least/2} {
		prepare()
		said, marks, err := withBudget(t, mib, args)
		if err != nil {
			t.Errorf("gstore %v within %d MiB, where %d was named: %v: %s", args, mib, least, err, said)
			continue
		}
		peak := marks[len(marks)-1].RSS
		t.Logf("gstore %v: a peak of %.1f of %d MiB", args, float64(peak)/(1<<20), mib)
		if peak > mib<<20 {
			t.Errorf("gstore %v: a peak of %.1f of %d MiB; at its marks %+v", args, float64(peak)/(1<<20), mib, marks)
		}
	}
}

// KeepsAccounts runs gstore, in a process of its own, with a budget in MiB: it must work, and hold at none of its marks more outside of Go's
// heap than its account says.
func KeepsAccounts(t *testing.T, mib int64, args ...string) {
	t.Helper()
	said, marks, err := withBudget(t, mib, args)
	if err != nil {
		t.Errorf("gstore %v within %d MiB: %v: %s", args, mib, err, said)
	}
	for _, m := range marks {
		// A test's program is not gstore's, whose code has some 34 MiB resident of the 48 that it is given.
		over := slices.DeleteFunc(m.Over, func(line string) bool { return line == command.LineCode })
		if len(over) > 0 {
			t.Errorf("gstore %v within %d MiB, %s: %q are over: %+v", args, mib, m.Mark, over, m.Lines)
		}
	}
}

// withBudget runs gstore within so many MiB and returns what it said and held.
func withBudget(t *testing.T, mib int64, args []string) (said string, marks []command.MemoryMark, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "marks")
	cmd := Command(append(slices.Clone(args), "--mem", strconv.FormatInt(mib, 10)+"MiB")...)
	cmd.Env = append(cmd.Env, command.MemoryMarksEnv+"="+file)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	err = cmd.Run()
	b, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatalf("gstore %v within %d MiB: %v: %s", args, mib, readErr, errs.String())
	}
	for line := range bytes.Lines(b) {
		var m command.MemoryMark
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatal(err)
		}
		marks = append(marks, m)
	}
	return errs.String(), marks, err
}
