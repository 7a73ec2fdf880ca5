//go:build linux

package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/grow"
	"github.com/gstore/gstore/store/storetest"
)

// TestDiskFull runs out of a real file system's room: an ingest leaves nothing
// that opens and is resumed when there is room.
func TestDiskFull(t *testing.T) {
	disk, resize := storetest.SmallDisk(t, 1<<20)
	ctx, dir := context.Background(), filepath.Join(disk, "store")
	input := randomGraph(8, 20_000, 200_000).write(t, false)
	ingestAll := func(resume bool) error {
		src, err := formats.Open(input, formats.Options{})
		if err != nil {
			return err
		}
		_, err = ingest.Run(ctx, dir, src, ingest.Options{Resume: resume, MemoryBytes: 256 << 20})
		return errors.Join(err, src.Close())
	}
	if err := ingestAll(false); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, expected that the disk is full", err)
	}
	if s, err := store.Open(dir, store.Options{}); err == nil {
		s.Close()
		t.Fatal("the store of a failed ingest opens")
	} else if !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrNoVersion) {
		t.Fatal(err)
	}
	resize(16 << 20)
	if err := ingestAll(true); err != nil {
		t.Fatalf("resumed with room: %v", err)
	}
	whole(t, dir, 0)
}

// TestDiskFullAppend runs out of room at every stage of an append, from its first
// file to its commit: each time with a little more room. It fails with
// ENOSPC, and the store is the one before and whole; until there is room for all of it.
func TestDiskFullAppend(t *testing.T) {
	for _, ids := range []store.IDKind{store.IDsDense, store.IDsStrings} {
		t.Run(string(ids), func(t *testing.T) {
			disk, resize := storetest.SmallDisk(t, 16<<20)
			ctx, dir := context.Background(), filepath.Join(disk, "store")
			edges := func(seed uint64, nodes, edges int) string {
				rng := rand.New(rand.NewPCG(seed, 3))
				var b strings.Builder
				for range edges {
					fmt.Fprintf(&b, "%d\t%d\n", rng.IntN(nodes), rng.IntN(nodes))
				}
				return b.String()
			}
			if _, err := ingest.Run(ctx, dir, openText(t, edges(1, 500, 4000), ids), ingest.Options{Partitions: 3, MemoryBytes: 256 << 20}); err != nil {
				t.Fatal(err)
			}
			before := storetest.Lines(t, openStore(t, dir, 0), nil)
			more := edges(2, 900, 20_000)
			step := int64(4<<10) * int64(race.Every(3))
			failed := 0
			for room := int64(0); ; room += step {
				if room > 8<<20 {
					t.Fatalf("no room for the append in %d bytes", room)
				}
				resize(max(1<<12, storetest.UsedBytes(t, disk)+room))
				_, err := grow.Append(ctx, dir, openText(t, more, ids), grow.Options{MemoryBytes: 256 << 20})
				if err == nil {
					break
				}
				failed++
				if !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("with %d bytes free: %v, expected that the disk is full", room, err)
				}
				s, err := store.Open(dir, store.Options{})
				if err != nil {
					t.Fatalf("with %d bytes free, after the append failed: %v", room, err)
				}
				if v := s.Manifest().Version; v != 1 {
					t.Fatalf("with %d bytes free the append failed and made version %d", room, v)
				}
				got := storetest.Lines(t, s, nil)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got, before) {
					t.Fatalf("with %d bytes free: %s", room, difference(got, before))
				}
				whole(t, dir, 0)
			}
			if failed < 20/race.Every(3) {
				t.Errorf("%d appends failed, expected more stages: the store had room that statfs does not show", failed)
			}
			resize(16 << 20)
			whole(t, dir, 0)
			whole(t, dir, 1)
			if m := openStore(t, dir, 0).Manifest(); m.Version != 2 || m.Edges != 24_000 || m.Nodes < 890 {
				t.Errorf("version %d of %d nodes, %d edges", m.Version, m.Nodes, m.Edges)
			}
		})
	}
}
