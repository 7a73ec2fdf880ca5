package cli

import (
	"runtime"
	"strings"
	"testing"
)

// TestVersion: gstore version names the program, Go and the platform, and takes no argument.
func TestVersion(t *testing.T) {
	var out, errs strings.Builder
	if code := Run(t.Context(), []string{"version"}, strings.NewReader(""), &out, &errs); code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	if want := runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH; !strings.HasPrefix(out.String(), "gstore ") || !strings.Contains(out.String(), want) {
		t.Errorf("gstore version says %q, expected gstore …, %s", out.String(), want)
	}
	if code := Run(t.Context(), []string{"version", "x"}, strings.NewReader(""), &out, &errs); code != ExitUsage {
		t.Errorf("with an argument: exit code %d, expected %d", code, ExitUsage)
	}
}
