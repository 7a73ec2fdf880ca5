package cli

import (
	"strings"
	"testing"
)

// TestCommandOrder checks that help lists the commands in the order of commands,
// which is not that of the alphabet.
func TestCommandOrder(t *testing.T) {
	code, help, stderr := runCommand(t, "--help")
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	at := 0
	for _, c := range commands(&env{}) {
		i := strings.Index(help[at:], "\n  "+c.Name()+" ")
		if i < 0 {
			t.Fatalf("%s is not after the commands before it in\n%s", c.Name(), help)
		}
		at += i + 1
	}
}
