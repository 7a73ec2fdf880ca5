// Package device makes the device that a command computes on, by the name that --device gives.
package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/cuda"
	"github.com/gstore/gstore/gpu/host"
)

// Names is what --device takes, for flags' help.
const Names = "auto (a GPU where there is one and this build knows it), host, or cuda:N (cuda is cuda:0)"

// Options names a device. The zero value is the best of this build and machine.
type Options struct {
	Name        string // "auto" or "", "host", "cuda", "cuda:N"
	Threads     int    // where the device computes on the processor; 0: all
	MemoryBytes int64  // most device memory; 0: what is free, less a tenth
	MatMul      string // "exact" or "", "tf32", "bf16"
}

// ErrName says that a device is called by a name that there is not.
var ErrName = errors.New("expected auto, host, cuda or cuda:N")

// Open makes the device. It is the caller's to close.
func Open(o Options) (gpu.Device, error) {
	matmul, err := cuda.ParseMatMul(o.MatMul)
	if err != nil {
		return nil, err
	}
	name := o.Name
	if name == "" || name == "auto" {
		name = "host"
		if infos, err := cuda.Devices(); err == nil && len(infos) > 0 {
			name = "cuda"
		}
	}
	if name == "host" {
		if matmul != cuda.Exact {
			return nil, fmt.Errorf("--matmul %v is for --device cuda; the host multiplies exactly", matmul)
		}
		return host.New(host.Options{Threads: o.Threads}), nil
	}
	ordinal, err := parse(name)
	if err != nil {
		return nil, err
	}
	return cuda.Open(cuda.Options{Ordinal: ordinal, MemoryBytes: o.MemoryBytes, MatMul: matmul})
}

// parse returns the number of a GPU's name.
func parse(name string) (int, error) {
	number, ok := strings.CutPrefix(name, "cuda")
	if ok && number == "" {
		return 0, nil
	}
	number, colon := strings.CutPrefix(number, ":")
	n, err := strconv.Atoi(number)
	if !ok || !colon || err != nil || n < 0 {
		return 0, fmt.Errorf("device %q: %w", name, ErrName)
	}
	return n, nil
}
