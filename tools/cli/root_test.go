package cli

import (
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
