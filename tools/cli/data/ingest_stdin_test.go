package data_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gstore/gstore/tools/cli"
)

// An interrupted ingest's copy of standard input is what --resume reads; refused input leaves none.
func TestStandardInputIsKeptForResume(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "g.gstore")
	ingest := func(stdin string, args ...string) (int, string) {
		in := iotest.OneByteReader(strings.NewReader(stdin))
		var out, errs bytes.Buffer
		code := cli.Run(t.Context(), append([]string{"ingest", "-", dir, "--quiet"}, args...), in, &out, &errs)
		return code, errs.String()
	}
	left := func() []string {
		paths, err := filepath.Glob(dir + "*")
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	if code, errs := ingest("1 2\n3 x\n", "--ids", "integers"); code != cli.ExitFailed || !strings.Contains(errs, "line 2: column 3") || len(left()) != 0 {
		t.Errorf("malformed: exit code %d, %q, %v is left", code, errs, left())
	}
	if err := os.WriteFile(dir+".stdin.txt", []byte("1 2\n2 3\n"), 0o666); err != nil { // as a crash leaves it
		t.Fatal(err)
	}
	if code, errs := ingest("never read", "--resume"); code != cli.ExitOK || len(left()) != 1 {
		t.Fatalf("resumed: exit code %d, %q, %v is left", code, errs, left())
	}
	if code, errs := ingest("1 2\n"); code != cli.ExitFailed || !strings.Contains(errs, "exists") || len(left()) != 1 {
		t.Errorf("onto a store: exit code %d, %q, %v is left", code, errs, left())
	}
}
