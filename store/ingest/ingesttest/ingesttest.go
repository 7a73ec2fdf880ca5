// Package ingesttest makes stores of files for tests.
package ingesttest

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
)

// Store ingests a folder in the format that it is recognised as into a store that is removed with the test, and returns where it is.
func Store(tb testing.TB, folder string, o ingest.Options) (dir string) {
	tb.Helper()
	dir = filepath.Join(tb.TempDir(), "store")
	src, err := formats.Open(folder, formats.Options{})
	if err == nil {
		_, err = ingest.Run(tb.Context(), dir, src, o)
		err = errors.Join(err, src.Close())
	}
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}
