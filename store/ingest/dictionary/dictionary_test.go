package dictionary

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/gstore/gstore/store/ingest/source"
)

// fillDictionary enters ids in batches by some goroutines, each many times over.
func fillDictionary(t *testing.T, d *Dictionary, ids []string) {
	t.Helper()
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 7))
			var w Scratch
			for range 6 {
				var b source.IDs
				for k := range ids {
					if k%4 == worker || rng.IntN(3) == 0 {
						if id := ids[rng.IntN(len(ids))]; d.Strings {
							b.Append([]byte(id))
						} else {
							b.Ints = append(b.Ints, binary.BigEndian.Uint64([]byte(id)))
						}
					}
				}
				for k, id := range ids { // all of them, at last
					if k%4 != worker {
						continue
					}
					if d.Strings {
						b.Append([]byte(id))
					} else {
						b.Ints = append(b.Ints, binary.BigEndian.Uint64([]byte(id)))
					}
				}
				if err := d.Add(&b, &w); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Ranks do not depend on memory: a dictionary in its tables, one that spills now and then,
// and one that spills so often that runs are merged twice, are the same.
func TestDictionarySpills(t *testing.T) {
	const n = 20000
	for _, strings := range []bool{true, false} {
		var ids []string
		for k := range uint64(n) {
			if strings {
				ids = append(ids, fmt.Sprintf("node %d of a graph", k*7919%n))
			} else {
				ids = append(ids, string(binary.BigEndian.AppendUint64(nil, k*0x9e3779b97f4a7c15%(1<<63))))
			}
		}
		sorted := slices.Sorted(slices.Values(ids))
		few := int64(1000 << 10)
		if !strings {
			few = 340 << 10
		}
		for name, limit := range map[string]int64{"memory": 64 << 20, "runs": few, "runs merged twice": few} {
			t.Run(fmt.Sprintf("strings=%v/%s", strings, name), func(t *testing.T) {
				d := New(strings, limit, 2, Files{Fs: vfs.Default, Dir: t.TempDir(), Prefix: "d"})
				defer d.Close()
				if name == "runs merged twice" {
					d.Files.runsMax = 2
				}
				fillDictionary(t, d, ids)
				spills := d.spills
				if err := d.Freeze(t.Context()); err != nil {
					t.Fatal(err)
				}
				if d.OnDisk() != (name != "memory") || d.OnDisk() && spills < 3 {
					t.Fatalf("spilled %d times, on disk: %v", spills, d.OnDisk())
				}
				checkDictionary(t, d, sorted)
				if !d.OnDisk() { // moved to disk after all
					if err := d.ToDisk(t.Context()); err != nil {
						t.Fatal(err)
					}
					checkDictionary(t, d, sorted)
				}
				if files, err := os.ReadDir(d.Files.Dir); err != nil || len(files) != 1 {
					t.Errorf("%d scratch files (%v), expected the sorted one", len(files), err)
				}
				if want := IndexBytes(n); d.Bytes.Load() != want || want > 9*n+8 {
					t.Errorf("%d bytes in memory, expected %d, at most 9 an id", d.Bytes.Load(), want)
				}
			})
		}
	}
}

// checkDictionary compares ranks both ways with the sorted ids.
func checkDictionary(t *testing.T, d *Dictionary, sorted []string) {
	t.Helper()
	if d.OnDisk() && d.Index == nil {
		if err := d.BuildIndex(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if d.Len() != len(sorted) {
		t.Fatalf("%d ids, expected %d", d.Len(), len(sorted))
	}
	at := 0
	err := d.Each(t.Context(), func(rank uint64, id []byte) error {
		if rank != uint64(at) || string(id) != sorted[at] {
			t.Fatalf("id %d is %q, expected %q", rank, id, sorted[at])
		}
		at++
		return nil
	})
	if err != nil || at != len(sorted) {
		t.Fatalf("%d ids in order (%v)", at, err)
	}
	var b source.IDs
	for _, id := range append(slices.Clone(sorted), "no such node") {
		if d.Strings {
			b.Append([]byte(id))
		} else {
			b.Ints = append(b.Ints, binary.BigEndian.Uint64([]byte(id)))
		}
	}
	for rank := range sorted {
		if got, ok := d.Rank(&b, rank); !ok || got != uint64(rank) {
			t.Fatalf("rank of %q is %d (%v), expected %d", sorted[rank], got, ok, rank)
		}
	}
	if got, ok := d.Rank(&b, len(sorted)); ok {
		t.Errorf("an id that is not there has rank %d", got)
	}
}

// Ids that share their hash's bits are told apart.
func TestIDIndexSharedHashes(t *testing.T) {
	const n = 1000
	hash := func(k uint64) uint64 { return k % 10 * 0x1234567_00000001 } // ten values, a hundred ids each
	name := func(k uint64) string { return fmt.Sprint("id ", k) }
	passes := 0
	x, err := newIDIndex(n, func(fn func(rank, hash uint64, id []byte)) error {
		passes++
		for k := range uint64(n) {
			fn(k, hash(k), []byte(name(k)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	for k := range uint64(n) {
		if rank, ok := x.rank(hash(k), []byte(name(k))); !ok || rank != k {
			t.Fatalf("rank of %s is %d (%v)", name(k), rank, ok)
		}
	}
	if _, ok := x.rank(hash(3), []byte("another")); ok || passes != 3 {
		t.Errorf("an id that shares a hash is found (%d passes)", passes)
	}
	for _, n := range []uint64{0, 1, 7, 8, 9, 1 << 20, 3 << 20} {
		if b := IndexBytes(n); b < int64(8*n) || b > int64(9*n)+16 {
			t.Errorf("an index of %d ids takes %d bytes", n, b)
		}
	}
}

// The sorter orders by id, then number, in memory and on disk.
func TestIDSorter(t *testing.T) {
	const n = 20000
	for _, memory := range []int64{1 << 20, 4 << 20} {
		s, err := NewSorter(memory, Files{Fs: vfs.Default, Dir: t.TempDir(), Prefix: "s"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		name := func(k uint64) string { return fmt.Sprintf("some name %05d that is not short", k/2*7919%(n/2)) }
		var want []string
		for k := range uint64(n) {
			want = append(want, fmt.Sprintf("%s %5d", name(k), k))
			if err := s.Add([]byte(name(k)), k); err != nil {
				t.Fatal(err)
			}
		}
		if (len(s.runs) > 0) != (memory == 1<<20) {
			t.Errorf("%d runs in %d bytes", len(s.runs), memory)
		}
		slices.Sort(want)
		at := 0
		err = s.Each(t.Context(), func(id []byte, number uint64) error {
			if got := fmt.Sprintf("%s %5d", id, number); got != want[at] {
				t.Fatalf("%q at %d, expected %q", got, at, want[at])
			}
			at++
			return nil
		})
		if err != nil || at != n {
			t.Errorf("%d of %d ids (%v)", at, n, err)
		}
	}
}
