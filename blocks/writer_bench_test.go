package blocks_test

import (
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/blocks"
)

// BenchmarkWriter writes 512 MiB files to the temporary directory's disk.
func BenchmarkWriter(b *testing.B) {
	part := make([]byte, 1<<20)
	for i := range part {
		part[i] = byte(i * i >> 7)
	}
	var before, after unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
	b.SetBytes(512 << 20)
	for b.Loop() {
		w, err := blocks.Create(vfs.Default, filepath.Join(b.TempDir(), "f"), blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Uint8, Dim: 1, Partitions: 1})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Begin(0); err != nil {
			b.Fatal(err)
		}
		for range 512 {
			if _, err := w.Write(part); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.End(512 << 20); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
	cpu := float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / 1e9
	b.ReportMetric(cpu/(float64(b.N)*512/1024*1.0737), "CPU-s/GB")
}
