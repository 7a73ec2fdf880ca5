package training_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestEnvironment: a variable of the environment stands for a flag, behind the command line and before a file.
func TestEnvironment(t *testing.T) {
	store := coraStore(t)
	file := filepath.Join(t.TempDir(), "run.yaml")
	if err := os.WriteFile(file, []byte("epochs: 4\nbatch-size: 500\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	epochs := func(args ...string) (n int) {
		t.Helper()
		for _, e := range clitest.Events(t, append([]string{"train", store, "--config", file}, args...)...) {
			if e["event"] == "epoch" {
				n++
			}
		}
		return n
	}
	if n := epochs(); n != 4 {
		t.Errorf("%d epochs, the file says 4", n)
	}
	t.Setenv("GSTORE_EPOCHS", "2")
	if n := epochs(); n != 2 {
		t.Errorf("%d epochs, the environment says 2", n)
	}
	if n := epochs("--epochs", "1"); n != 1 {
		t.Errorf("%d epochs, the command line says 1", n)
	}
	t.Setenv("GSTORE_BATCH_SIZE", "many")
	if code, _, errs := clitest.Run(t, "train", store); code != cli.ExitUsage || !strings.Contains(errs, "GSTORE_BATCH_SIZE=many: ") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
