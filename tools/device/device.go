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
	"github.com/gstore/gstore/gpu/host/kernels"
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

// ErrOption marks options that no machine, or not this program, can meet, apart from a device that fails: a name that there is
// not, products that the device does not make, a GPU beyond the last one, CUDA in a program without it.
var ErrOption = errors.New("expected auto, host, cuda or cuda:N")

// optionError is an error that matches [ErrOption].
type optionError struct{ error }

func (e optionError) Is(target error) bool { return target == ErrOption }
func (e optionError) Unwrap() error        { return e.error }

// Open makes the device. It is the caller's to close. An error that matches [ErrOption] is o's; any other one the machine's.
func Open(o Options) (gpu.Device, error) {
	matmul, err := cuda.ParseMatMul(o.MatMul)
	if err != nil {
		return nil, optionError{err}
	}
	name := o.Name
	if name == "" || name == "auto" {
		name = "host"
		if infos, err := cuda.Devices(); err == nil && len(infos) > 0 {
			name = "cuda"
		}
	}
	if name == "host" {
		switch {
		case matmul == cuda.TF32:
			return nil, optionError{fmt.Errorf("--matmul tf32 is for --device cuda; the host has exact and, on processors with AMX, bf16")}
		case matmul == cuda.BF16 && !kernels.HasBF16():
			return nil, optionError{fmt.Errorf("--matmul bf16: this processor, or its system, has no tiles of bfloat16 (Intel AMX); expected exact")}
		}
		return host.New(host.Options{Threads: o.Threads, BF16: matmul == cuda.BF16}), nil
	}
	ordinal, err := parse(name)
	if err != nil {
		return nil, err
	}
	dev, err := cuda.Open(cuda.Options{Ordinal: ordinal, MemoryBytes: o.MemoryBytes, MatMul: matmul})
	if errors.Is(err, cuda.ErrNotBuilt) || errors.Is(err, cuda.ErrOrdinal) {
		err = optionError{err}
	}
	return dev, err
}

// Unasked describes the device that is taken where none is named, for who plans and computes nothing.
func Unasked() (gpu.Info, error) {
	dev, err := Open(Options{Threads: 1})
	if err != nil {
		return gpu.Info{}, err
	}
	return dev.Info(), dev.Close()
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
		return 0, fmt.Errorf("device %q: %w", name, ErrOption)
	}
	return n, nil
}
