package kernels

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"path"
	"strings"
	"testing"
)

// Attributes of a cubin's section .nv.info, each with a kernel's symbol and a number.
const (
	frameSize = 0x11 // bytes of stack a thread
	registers = 0x2f // a thread
)

// oneBlock is the bound where a multiprocessor holds one block of 256 threads.
const oneBlock = 255

// mostRegisters are bounds of kernels by the beginnings of their names, the first that fits: a multiprocessor has 65,536 registers, and
// these many let so many threads live there as hide the time that memory takes.
var mostRegisters = []struct {
	name string
	most uint32
}{
	{"gemm_sum", 64},
	{"gemm_", 128},    // two blocks of 256 threads, four of 128; where shared memory has room for one, oneBlock
	{"messages_", 64}, // four blocks of 256
	{"sample_", 64},   // likewise
	{"gather_", 64},   // likewise
	{"sort_", 64},     // likewise
	{"", 80},          // three blocks of 256
}

// spilled are the few bytes of stack that bounds of registers cost: of what is needed once a tile, not of sums.
var spilled = map[string]uint32{"sm_80.cubin gemm_exact_nn_large": 8}

// TestResourcesOfKernels: no kernel of any image has a stack, which lies in the device's memory however small it is, and none takes more
// registers than its bound. On an H200 products whose sums lay on the stack, a block of them a multiprocessor, had half of the speed.
func TestResourcesOfKernels(t *testing.T) {
	files, err := fs.Glob(images, "images/*.cubin.gz")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d cubins, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".gz")
		image, err := open(name)
		if err != nil {
			t.Fatal(err)
		}
		found := resources(t, image)
		if len(found) < 50 {
			t.Errorf("%s says of %d kernels what they take, expected some 60", name, len(found))
		}
		for kernel, of := range found {
			if n := of[frameSize]; n > spilled[name+" "+kernel] {
				t.Errorf("%s: kernel %s has a stack of %d bytes a thread, expected none: an array that is indexed by what is not known when it is compiled, or too few registers", name, kernel, n)
			}
			for _, b := range mostRegisters {
				if strings.HasPrefix(kernel, b.name) {
					most := b.most
					if b.name == "gemm_" && (name == "sm_86.cubin" || name == "sm_89.cubin") {
						most = oneBlock
					}
					if n := of[registers]; n > most || n == 0 {
						t.Errorf("%s: kernel %s takes %d registers a thread, expected at most %d", name, kernel, n, most)
					}
					break
				}
			}
		}
	}
}

// resources reads the attributes of a cubin's kernels.
func resources(t *testing.T, image []byte) map[string]map[byte]uint32 {
	t.Helper()
	image = bytes.Clone(image)
	binary.LittleEndian.PutUint32(image[20:], uint32(elf.EV_CURRENT)) // which is the compiler's version
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	section := f.Section(".nv.info")
	if section == nil {
		t.Fatal("the image has no section .nv.info")
	}
	b, err := section.Data()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]map[byte]uint32{}
	for len(b) >= 4 {
		const sized = 4 // a format: the length of what follows is in the last two bytes
		format, attribute, size := b[0], b[1], int(binary.LittleEndian.Uint16(b[2:]))
		if b = b[4:]; format != sized {
			continue
		}
		if size > len(b) {
			t.Fatalf("an attribute of %d bytes in %d", size, len(b))
		}
		if size == 8 && (attribute == frameSize || attribute == registers) {
			symbol := binary.LittleEndian.Uint32(b)
			if symbol == 0 || int(symbol) > len(symbols) {
				t.Fatalf("symbol %d of %d", symbol, len(symbols))
			}
			// Else it is a function that the compiler made, which has the registers of its kernel.
			if kernel := symbols[symbol-1].Name; f.Section(".text."+kernel) != nil {
				if found[kernel] == nil {
					found[kernel] = map[byte]uint32{}
				}
				found[kernel][attribute] = binary.LittleEndian.Uint32(b[4:])
			}
		}
		b = b[size:]
	}
	return found
}
