//go:build cuda

package cuda

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/gstore/gstore/gpu/cuda/driver"
)

// The emulated driver has to notice bugs: these are planted (emulator/testdata/bugs.cu), and looked for.

// bug runs a planted kernel on 256 threads over n ints 0, 1, 2, … and returns them.
func bug(t *testing.T, name string, n int) ([]int32, error) {
	t.Helper()
	d := open(t, Options{})
	defer d.Close()
	s := d.zero
	var f driver.Function
	must(t, d.ctx.Do(func() error {
		m, err := cu.LoadData(".entry " + name + "(")
		must(t, err)
		k, err := m.Function(name)
		f = driver.FunctionOf(k)
		return err
	}))
	host := make([]int32, n)
	for i := range host {
		host[i] = int32(i)
	}
	p, err := d.alloc(int64(4 * n))
	must(t, err)
	pinned, err := d.ctx.AllocHost(4 * n)
	must(t, err)
	defer d.ctx.FreeHost(pinned)
	x := unsafe.Slice((*int32)(unsafe.Pointer(&pinned[0])), n)
	copy(x, host)
	must(t, d.ctx.Upload(p.at, unsafe.Pointer(&x[0]), int64(4*n), s.cu))
	var a driver.Args
	must(t, d.ctx.Launch(f, driver.Shape{Threads: 256}, s.cu, a.Ptr(p.at)))
	if err := d.ctx.Wait(s.event, s.cu); err != nil {
		return nil, d.lose(err, nil)
	}
	must(t, d.ctx.Download(unsafe.Pointer(&x[0]), p.at, int64(4*n), s.cu))
	must(t, d.ctx.Wait(s.event, s.cu))
	copy(host, x)
	return host, nil
}

func TestEmulatorShowsMissingBarriers(t *testing.T) {
	for _, schedule := range []string{"lazy", "random:1"} {
		emulated(t, "GS_EMU_SCHEDULE", schedule)
		got, err := bug(t, "bug_race", 256)
		must(t, err)
		reversed := true
		for i, v := range got {
			reversed = reversed && int(v) == 255-i
		}
		if reversed {
			t.Errorf("%s: a race of writes and reads in shared memory changed nothing", schedule)
		}
		if got, err = bug(t, "bug_barrier", 256); err != nil || got[0] == 255*256/2 {
			t.Errorf("%s: a sum without barriers is right: %v", schedule, err)
		}
	}
}

func TestEmulatorDefersCopies(t *testing.T) {
	emulated(t)
	got, err := bug(t, "bug_copy", 256)
	must(t, err)
	if got[0] != -7 {
		t.Errorf("an asynchronous copy to shared memory was there before anybody waited: %d", got[0])
	}
}

// What ends a kernel goes to standard error: a process each.
func TestEmulatorStopsKernels(t *testing.T) {
	if name := os.Getenv("GS_BUG"); name != "" {
		_, err := bug(t, name, 256)
		t.Log("result:", err)
		if err == nil {
			t.Error("no error")
		}
		return
	}
	emulated(t)
	if os.Getenv("LD_PRELOAD") != "" {
		t.Skip("AddressSanitizer ends the process at what this looks for")
	}
	self, err := os.Executable()
	must(t, err)
	for name, want := range map[string]string{"bug_bounds": "signal 11", "bug_divergent": "hangs"} {
		c := exec.Command(self, "-test.run=^TestEmulatorStopsKernels$", "-test.v")
		c.Env = append(os.Environ(), "GS_BUG="+name)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), "device is lost") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// TestAddressSanitizerFindsOverruns: an overrun by 4 bytes, which no page fault shows, ends the process and
// names the line. It runs where the emulator was built with AddressSanitizer.
func TestAddressSanitizerFindsOverruns(t *testing.T) {
	const name = "bug_small_bounds"
	if os.Getenv("GS_BUG") == name {
		bug(t, name, 250)
		return
	}
	if os.Getenv("LD_PRELOAD") == "" {
		t.Skip("needs AddressSanitizer: gpu/cuda/build.sh test asan")
	}
	self, err := os.Executable()
	must(t, err)
	c := exec.Command(self, "-test.run=^TestAddressSanitizerFindsOverruns$", "-test.v")
	c.Env = append(os.Environ(), "GS_BUG="+name)
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "bugs.cu:") || !strings.Contains(string(out), "AddressSanitizer") {
		t.Errorf("an overrun of 4 bytes was not found: %v\n%s", err, out)
	}
}

// crossed copies up on one stream and down on another, and reports how many of 100 rounds were wrong.
func crossed(t *testing.T, wait bool) (wrong int) {
	d := open(t, Options{})
	defer d.Close()
	other, err := d.newStream()
	must(t, err)
	pinned, err := d.ctx.AllocHost(8)
	must(t, err)
	defer d.ctx.FreeHost(pinned)
	x := unsafe.Slice((*int32)(unsafe.Pointer(&pinned[0])), 2)
	p, err := d.alloc(4)
	must(t, err)
	for i := range int32(100) {
		x[0] = i
		must(t, d.ctx.Upload(p.at, unsafe.Pointer(&x[0]), 4, d.zero.cu))
		if wait {
			must(t, d.ctx.Wait(d.zero.event, d.zero.cu))
		}
		must(t, d.ctx.Download(unsafe.Pointer(&x[1]), p.at, 4, other.cu))
		must(t, d.ctx.Wait(other.event, other.cu))
		if x[1] != i {
			wrong++
		}
		must(t, d.ctx.Wait(d.zero.event, d.zero.cu))
	}
	return wrong
}

func TestEmulatorShowsMissingWaits(t *testing.T) {
	for schedule, most := range map[string]int{"lazy": 99, "random:1": 5, "random:2": 5, "random:3": 5} {
		emulated(t, "GS_EMU_SCHEDULE", schedule)
		if n := crossed(t, true); n > 0 {
			t.Errorf("%s: with a wait %d of 100 rounds are wrong", schedule, n)
		}
		if n := crossed(t, false); n < most {
			t.Errorf("%s: without a wait only %d of 100 rounds are wrong, expected %d", schedule, n, most)
		}
	}
}

// exchanged lets one stream fill memory and another read it, by turns, and reports how many of 100 rounds were wrong. there
// lets reading follow filling, back filling reading.
func exchanged(t *testing.T, there, back bool) (wrong int) {
	d := open(t, Options{})
	defer d.Close()
	fills, err := d.newStream()
	must(t, err)
	reads, err := d.newStream()
	must(t, err)
	pinned, err := d.ctx.AllocHost(2 * 4 * 100)
	must(t, err)
	defer d.ctx.FreeHost(pinned)
	x := unsafe.Slice((*int32)(unsafe.Pointer(&pinned[0])), 2*100)
	p, err := d.alloc(4)
	must(t, err)
	for i := range 100 {
		x[i], x[100+i] = int32(i), -1
		if back {
			fills.Follow(reads)
		}
		must(t, d.ctx.Upload(p.at, unsafe.Pointer(&x[i]), 4, fills.cu))
		if there {
			reads.Follow(fills)
		}
		must(t, d.ctx.Download(unsafe.Pointer(&x[100+i]), p.at, 4, reads.cu))
	}
	first, second := fills, reads // a lazy schedule runs what is waited for first
	if !there {
		first, second = reads, fills
	}
	must(t, d.ctx.Wait(first.event, first.cu))
	must(t, d.ctx.Wait(second.event, second.cu))
	for i := range 100 {
		if x[100+i] != x[i] {
			wrong++
		}
	}
	return wrong
}

// A stream that does not follow the other reads too early, or fills too early: either shows.
func TestEmulatorShowsMissingFollows(t *testing.T) {
	for schedule, most := range map[string]int{"lazy": 99, "random:1": 5, "random:2": 5, "random:3": 5, "threads": 0} {
		emulated(t, "GS_EMU_SCHEDULE", schedule)
		if n := exchanged(t, true, true); n > 0 {
			t.Errorf("%s: with both waits %d of 100 rounds are wrong", schedule, n)
		}
		if n := exchanged(t, false, true); n < most {
			t.Errorf("%s: reading before it is filled, only %d of 100 rounds are wrong, expected %d", schedule, n, most)
		}
		if n := exchanged(t, true, false); n < most {
			t.Errorf("%s: filling before it is read, only %d of 100 rounds are wrong, expected %d", schedule, n, most)
		}
	}
}

// A call on a thread without the context is an error: Context.Do and the calls of package driver see to it.
func TestEmulatorWantsAContext(t *testing.T) {
	emulated(t)
	d := open(t, Options{})
	defer d.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must(t, cu.SetCurrentContext(cu.CUContext{})) // as on a thread that the driver has not seen
	if _, err := cu.MakeStream(cu.NonBlocking); err == nil {
		t.Error("a stream was made on a thread without a context")
	}
	must(t, d.ctx.Do(func() error {
		s, err := cu.MakeStream(cu.NonBlocking)
		must(t, err)
		return s.Destroy()
	}))
}

// TestEmulatorPinsStrictly: a copy of host memory that is not page-locked is an error.
func TestEmulatorPinsStrictly(t *testing.T) {
	emulated(t, "GS_EMU_STRICT", "1")
	d := open(t, Options{})
	defer d.Close()
	p, err := d.alloc(4)
	must(t, err)
	x := new(int32)
	if err := d.ctx.Upload(p.at, unsafe.Pointer(x), 4, d.zero.cu); err == nil {
		t.Error("an asynchronous copy of memory of the Go heap is no error")
	}
}

// TestEmulatorReportsLeaks: the last release of a context with memory left is an error.
func TestEmulatorReportsLeaks(t *testing.T) {
	emulated(t, "GS_EMU_STRICT", "1")
	d := open(t, Options{})
	p, err := d.ctx.Alloc(4)
	must(t, err)
	if err := d.Close(); err != driver.NotPermitted {
		t.Errorf("a leak of device memory gives %v", err)
	}
	ctx, err := driver.Retain(0)
	must(t, err)
	must(t, ctx.Free(p))
	must(t, ctx.Release())
}

// TestEmulatorHasDevices: memory of another device is out of reach without peer access.
func TestEmulatorHasDevices(t *testing.T) {
	if os.Getenv("GS_BUG") == "devices" {
		infos, err := Devices()
		must(t, err)
		if len(infos) != 2 {
			t.Fatalf("%d devices, expected 2", len(infos))
		}
		for _, peer := range []bool{false, true} {
			a, b := open(t, Options{}), open(t, Options{Ordinal: 1})
			if peer {
				must(t, a.ctx.EnablePeer(b.ctx))
			}
			mine, err := a.alloc(4)
			must(t, err)
			theirs, err := b.alloc(4)
			must(t, err)
			s := a.zero
			var args args
			s.flat("mul", 1, args.Ptr(mine.at).Ptr(theirs.at))
			if err := a.ctx.Wait(s.event, s.cu); (err == nil) != peer {
				t.Errorf("peer access %v: %v", peer, err)
			} else if err != nil {
				a.lose(err, nil)
			}
			must(t, a.Close())
			must(t, b.Close())
		}
		return
	}
	emulated(t)
	self, err := os.Executable()
	must(t, err)
	c := exec.Command(self, "-test.run=^TestEmulatorHasDevices$", "-test.v")
	c.Env = append(os.Environ(), "GS_BUG=devices", "GS_EMU_DEVICES=2")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
