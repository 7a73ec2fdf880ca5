package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestManualPages: there is a page of gstore and of each command, with its flags, the same each time.
func TestManualPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	clitest.MustRun(t, "man", dir)
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	first := read("gstore-train.1")
	if !strings.Contains(first, ".TH") || !strings.Contains(first, "--mem") || !strings.Contains(first, "gstore train") {
		t.Errorf("gstore-train.1 is %.300s", first)
	}
	for _, page := range []string{"gstore.1", "gstore-ingest.1", "gstore-append.1", "gstore-predict.1", "gstore-man.1"} {
		if len(read(page)) < 200 {
			t.Errorf("%s is %q", page, read(page))
		}
	}
	clitest.MustRun(t, "man", dir)
	if read("gstore-train.1") != first {
		t.Error("written again, a page differs")
	}
	if code, _, errs := clitest.Run(t, "man"); code != cli.ExitUsage {
		t.Errorf("without a folder: exit %d: %s", code, errs)
	}
}
