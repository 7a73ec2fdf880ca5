package cli

import (
	"runtime"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli/command"
)

// TestCommandOrder checks that help lists the commands in the order of commands,
// which is not that of the alphabet.
func TestCommandOrder(t *testing.T) {
	var out, errs strings.Builder
	if code := Run(t.Context(), []string{"--help"}, strings.NewReader(""), &out, &errs); code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	help := out.String()
	at := 0
	for _, c := range commands(&command.Env{}) {
		i := strings.Index(help[at:], "\n  "+c.Name()+" ")
		if i < 0 {
			t.Fatalf("%s is not after the commands before it in\n%s", c.Name(), help)
		}
		at += i + 1
	}
}

// TestFirstWords runs what people type first.
func TestFirstWords(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		said string // part of it, on either stream
	}{
		{"--version", ExitOK, "gstore (devel)"},
		{"help", ExitOK, "Available Commands:"},
		{"help train", ExitOK, "Train a graph neural network on a store"},
		{"help trian", ExitUsage, "unknown command \"trian\": did you mean train?\nRun \"gstore --help\" for the commands."},
		{"help train foo", ExitUsage, "unknown command \"train foo\""},
		{"foo", ExitUsage, "unknown command \"foo\"\nRun \"gstore --help\" for the commands."},
		{"train", ExitUsage, "Run \"gstore train --help\" for its flags."},
		{"train s --mem 4Q", ExitUsage, "is no size"},
		{"train no-such-store --mem 4G", ExitFailed, "there is no directory no-such-store"},
	} {
		var out strings.Builder
		code := Run(t.Context(), strings.Fields(c.args), strings.NewReader(""), &out, &out)
		if code != c.code || !strings.Contains(out.String(), c.said) {
			t.Errorf("gstore %s: exit code %d, expected %d and %q in:\n%s", c.args, code, c.code, c.said, out.String())
		}
	}
}

// TestRunsLeaveNothing: a process may run any number of command lines, as the tests do: what one was made of is not kept.
func TestRunsLeaveNothing(t *testing.T) {
	held := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const runs = 20
	var before int64
	for i := range 1 + runs {
		if i == 1 {
			before = held()
		}
		var out, errs strings.Builder
		if code := Run(t.Context(), []string{"train", "--help"}, strings.NewReader(""), &out, &errs); code != ExitOK {
			t.Fatalf("exit code %d: %s", code, errs.String())
		}
	}
	if each := (held() - before) / runs; each > 50<<10 { // the flags of all commands take 390 kB
		t.Errorf("a run leaves %d bytes", each)
	}
}
