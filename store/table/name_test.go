package table

import (
	"strings"
	"testing"
)

// TestValidName: letters, digits, '-' and '_', 64 of them at most; what lies beside them in the alphabet is refused.
func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"azAZ09-_": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "a.b": false, "a/b": false, "a:b": false, "@": false, "[": false, "`": false, "{": false, "é": false, "a b": false,
	} {
		if got := ValidName(name); got != want {
			t.Errorf("%q: %v, expected %v", name, got, want)
		}
	}
}
