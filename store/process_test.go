package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m, child) }

// child is the other process.
func child(role, dir string) error {
	switch role {
	case "hold": // opens a writer and holds it until stdin ends
		w, err := store.OpenWriter(dir, store.WriterOptions{})
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		return w.Close()
	case "read": // opens the store again and again until stdin ends
		stop := make(chan struct{})
		go func() {
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
			close(stop)
		}()
		fmt.Println("ready")
		for n := 0; ; n++ {
			select {
			case <-stop:
				fmt.Println(n)
				return nil
			default:
			}
			if err := readOnce(dir); err != nil {
				return err
			}
		}
	case "commit": // commits version after version until killed
		fmt.Println("ready")
		for {
			if err := commitSeeded(dir); err != nil {
				return err
			}
			fmt.Println("committed")
		}
	}
	return fmt.Errorf("unknown role %q", role)
}

// commitSeeded commits a graph whose seed is its version's number.
func commitSeeded(dir string) error {
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		return err
	}
	g := storetest.Random(storetest.Options{Seed: w.Version(), Partitions: 3, IDs: store.IDsStrings})
	m, err := g.Write(w)
	if err == nil {
		err = w.Commit(ctx, m)
	}
	return errors.Join(err, w.Close())
}

// readOnce opens the newest version and compares its features with those of
// the seed that made it.
func readOnce(dir string) (err error) {
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	g := storetest.Random(storetest.Options{Seed: s.Manifest().Version, Partitions: 3, IDs: store.IDsStrings})
	first := g.Firsts()
	for p, n := range g.Sizes {
		x, _, err := s.ReadExternal(ctx, store.PartitionID(p), nil)
		if err != nil {
			return err
		}
		if x.Len() != int(n) {
			return fmt.Errorf("version %d: partition %d has %d nodes, expected %d", s.Manifest().Version, p, x.Len(), n)
		}
		for k := range x.Len() {
			if got := string(x.Append(nil, k)); got != g.External[first[p]+uint64(k)] {
				return fmt.Errorf("version %d: node %d is %q", s.Manifest().Version, k, got)
			}
		}
	}
	return nil
}

func newSeeded(t *testing.T) string {
	t.Helper()
	return storetest.Create(t, storetest.Random(storetest.Options{Seed: 1, Partitions: 3, IDs: store.IDsStrings}))
}

func TestTwoWriters(t *testing.T) {
	dir := newSeeded(t)
	p := storetest.Start(t, "hold", dir)
	began := time.Now()
	if _, err := store.OpenWriter(dir, store.WriterOptions{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second writer: %v, expected ErrLocked", err)
	}
	if waited := time.Since(began); waited > 20*time.Second {
		t.Errorf("a second writer waited %v", waited)
	}
	if err := readOnce(dir); err != nil {
		t.Errorf("a reader beside a writer: %v", err)
	}
	if _, err := store.RecordRun(ctx, dir, store.Run{Command: "train"}, store.Options{}); err != nil {
		t.Errorf("recording a run beside a writer: %v", err)
	}
	if _, err := p.End(); err != nil {
		t.Error(err)
	}
	if err := commitSeeded(dir); err != nil {
		t.Errorf("after the first writer: %v", err)
	}
	// In one process, too.
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := store.OpenWriter(dir, store.WriterOptions{}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("second writer in one process: %v", err)
	}
}

func TestReadersWhileWriterCommits(t *testing.T) {
	dir := newSeeded(t)
	readers := []*storetest.Process{storetest.Start(t, "read", dir), storetest.Start(t, "read", dir)}
	for range 15 / storetest.Every(3) {
		if err := commitSeeded(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range readers {
		line, err := p.End()
		n, _ := strconv.Atoi(line)
		if err != nil || n == 0 {
			t.Errorf("a reader read %q times: %v", line, err)
		}
	}
}

// TestKilledWriter kills a committing process at random moments; the store
// opens whole each time, and the next writer goes on.
func TestKilledWriter(t *testing.T) {
	dir := newSeeded(t)
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range 25 / storetest.Every(2) {
		p := storetest.Start(t, "commit", dir)
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if err := p.Cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Cmd.Wait()
		if err := readOnce(dir); err != nil {
			t.Fatalf("after kill %d: %v", i, err)
		}
	}
	if err := commitSeeded(dir); err != nil {
		t.Fatal(err)
	}
	if err := readOnce(dir); err != nil {
		t.Fatal(err)
	}
}
