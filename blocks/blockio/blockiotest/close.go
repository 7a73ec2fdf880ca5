package blockiotest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/gstore/gstore/blocks/blockio"
)

func testCancelled(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	path, _ := file(t, 5000, 16)
	f := open(t, e, path, blockio.OpenOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := e.Do(ctx, []blockio.Request{{File: f, Buf: make([]byte, 100)}}, func(int) { t.Error("a request ran") })
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func testCancelledMidway(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{Depth: 2, SplitBytes: 4096})
	path, want := file(t, 8<<20, 17)
	f := open(t, e, path, blockio.OpenOptions{})
	batch := make([]blockio.Request, 1000)
	for i := range batch {
		batch[i] = blockio.Request{File: f, Offset: int64(i) * 8192, Buf: make([]byte, 8192)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var complete []int
	err := e.Do(ctx, batch, func(i int) {
		complete = append(complete, i)
		if len(complete) == 1 {
			cancel()
		}
	})
	// An engine may have finished before it noticed.
	if len(complete) < len(batch) && !errors.Is(err, context.Canceled) {
		t.Fatalf("%d of %d complete, %v", len(complete), len(batch), err)
	}
	for _, i := range complete {
		same(t, batch[i].Buf, want[i*8192:(i+1)*8192], fmt.Sprintf("request %d", i))
	}
	do(t, e, batch[:10]) // and works on
}

func testClosed(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{})
	path, _ := file(t, 5000, 18)
	f := open(t, e, path, blockio.OpenOptions{})
	read := []blockio.Request{{File: f, Buf: make([]byte, 100)}}
	do(t, e, read)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); !errors.Is(err, blockio.ErrClosed) {
		t.Fatalf("closed twice: %v", err)
	}
	if err := e.Do(context.Background(), read, nil); !errors.Is(err, blockio.ErrClosed) {
		t.Fatalf("read of a closed file: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); !errors.Is(err, blockio.ErrClosed) {
		t.Fatalf("engine closed twice: %v", err)
	}
	if _, err := e.Open(path, blockio.OpenOptions{}); !errors.Is(err, blockio.ErrClosed) {
		t.Fatalf("open on a closed engine: %v", err)
	}
	if err := e.Do(context.Background(), nil, nil); !errors.Is(err, blockio.ErrClosed) {
		t.Fatalf("batch on a closed engine: %v", err)
	}
}

func testCloseWhileBusy(t *testing.T, newEngine Maker) {
	e := engine(t, newEngine, blockio.Options{Depth: 2, SplitBytes: 4096})
	path, want := file(t, 4<<20, 19)
	f := open(t, e, path, blockio.OpenOptions{})
	started := make(chan struct{})
	var once sync.Once
	result := make(chan error, 1)
	buf := make([]byte, 4<<20)
	go func() {
		result <- e.Do(context.Background(), []blockio.Request{{File: f, Buf: buf[:4096]}, {File: f, Offset: 4096, Buf: buf[4096:]}},
			func(int) { once.Do(func() { close(started) }) })
	}()
	<-started
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	switch err := <-result; {
	case err == nil:
		same(t, buf, want, "the file")
	case !errors.Is(err, blockio.ErrClosed):
		t.Fatal(err)
	}
}

// descriptors returns this process's open descriptors, or −1 where that is unknown.
func descriptors() int {
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(d)
}

// mappings returns how many mappings of path this process has, or −1.
func mappings(path string) int {
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return -1
	}
	return bytes.Count(b, []byte(path))
}

func testDescriptors(t *testing.T, newEngine Maker) {
	path, _ := file(t, 100_000, 20)
	before := descriptors()
	for range 3 {
		e := newEngine(t, blockio.Options{})
		var files []blockio.File
		for range 10 {
			f, err := e.Open(path, blockio.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			do(t, e, []blockio.Request{{File: f, Buf: make([]byte, 100_000)}})
		}
		for _, f := range files {
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if after := descriptors(); after != before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
	if n := mappings(path); n > 0 {
		t.Errorf("%d mappings of the file are left", n)
	}
}
