package formats

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gstore/gstore/store/ingest"
)

// A stream is spooled under a name that says what it is; --resume takes what is whole.
func TestSpool(t *testing.T) {
	fs := memFS(t, nil)
	spool := func(b []byte, format string, resume bool) string {
		t.Helper()
		path, err := Spool(t.Context(), fs, "d/g.stdin", bytes.NewReader(b), format, resume)
		if err != nil {
			t.Fatal(err)
		}
		f, err := fs.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f)
		if err = errors.Join(err, f.Close()); err != nil || !resume && !bytes.Equal(got, b) {
			t.Fatalf("%q is spooled as %q (%v)", b, got, err)
		}
		return path
	}
	for _, tt := range []struct{ head, format, want string }{
		{"1\t2\n", "auto", ".txt"}, {"\x1f\x8b\x08", "edgelist", ".txt.gz"}, {"\x28\xb5\x2f\xfd.", "", ".txt.zst"},
		{"PK\x03\x04", "npz", ".npz"}, {"PAR1", "", ".parquet"}, {"\x1f\x8b\x00\x00\x01\x00\x00\x00", "binary", ".raw"}, {"7", "", ".txt"},
	} {
		if got := spool([]byte(tt.head), tt.format, false); got != "d/g.stdin"+tt.want {
			t.Errorf("%q of format %q goes to %s, expected %s", tt.head, tt.format, got, tt.want)
		}
		if names, err := fs.List("d"); err != nil || len(names) != 1 {
			t.Errorf("%v are there (%v), expected one file", names, err)
		}
	}
	if got := spool(nil, "", true); got != "d/g.stdin.txt" {
		t.Errorf("resumed from %s", got)
	}
	broken := errors.New("broken pipe")
	if _, err := Spool(t.Context(), fs, "d/g.stdin", io.MultiReader(strings.NewReader("1 2\n"), iotest.ErrReader(broken)), "", false); !errors.Is(err, broken) {
		t.Errorf("%v, expected the reader's error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Spool(ctx, fs, "d/g.stdin", strings.NewReader("1 2\n"), "", false); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected that it was cancelled", err)
	}
	if _, err := Spool(t.Context(), fs, "d/g.stdin", strings.NewReader(""), "", false); !errors.Is(err, ingest.ErrInput) {
		t.Errorf("%v, expected that nothing is refused", err)
	}
	if names, err := fs.List("d"); err != nil || len(names) != 0 {
		t.Errorf("%v are left (%v)", names, err)
	}
}
