package options

import (
	"runtime"
	"strings"

	"github.com/gstore/gstore/blocks/blockio"
)

// Headings of the help, under which options stand.
const (
	Data           = "data"
	Model          = "model"
	Optimiser      = "optimiser"
	OutOfCore      = "out of core"
	LinkPrediction = "link prediction"
	Checkpoints    = "checkpoints"
	InputOutput    = "input and output"
)

// Options that every task has alike. Each takes the function that returns the address of its field.

// Memory is the bound of a run's memory.
func Memory[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Flag: "mem", Group: OutOfCore, Help: "bound of the whole run's memory, such as 4GiB",
		Otherwise: "three quarters of what the machine, or the cgroup, has, unless the graph is small", Values: AtLeast(0)}
}

// IOEngine is how files are read.
func IOEngine[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Group: InputOutput, Level: Expert, Help: "how files are read",
		Default: "auto", Values: Words(blockio.Names()...)}
}

// Device is what computes.
func Device[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Group: InputOutput, Help: "what computes: auto, host, cuda or cuda:N",
		Default: "auto", Values: Text("auto, host, cuda or cuda:N", isDevice)}
}

func isDevice(name string) bool {
	kind, number, numbered := strings.Cut(name, ":")
	return kind == "cuda" && (!numbered || number != "") || name == "auto" || name == "host"
}

// DeviceMemory is the bound of what is allocated on a GPU.
func DeviceMemory[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Flag: "device-mem", Group: InputOutput, Level: Expert,
		Help:      "memory of a GPU that may be allocated",
		Otherwise: "what is free, less a tenth", Values: AtLeast(0)}
}

// MatMul is how matrices are multiplied.
func MatMul[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Group: InputOutput, Level: Expert,
		Help: "how matrices are multiplied: exact has the errors of float32; tf32 (GPUs) and bf16 (GPUs, and processors " +
			"with AMX) are faster",
		Otherwise: "exact", Values: Words("exact", "tf32", "bf16")}
}

// Threads is how many processors compute.
func Threads[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Group: InputOutput, Help: "how many processors to use", Otherwise: "all",
		Default: func(*C) any { return runtime.GOMAXPROCS(0) }, Values: AtLeast(1)}
}

// Seed is what random choices follow from.
func Seed[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Group: Optimiser,
		Help: "seed of every random choice: the same seed gives the same losses to the bit"}
}

// Resume goes on with a run.
func Resume[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Flag: "resume", Group: Checkpoints,
		Help: "go on from the last checkpoint, with the flags that the run began with; where there is none, begin"}
}

// CheckpointFile is where the last checkpoint lies.
func CheckpointFile[C any](field func(*C) any) Option[C] {
	return Option[C]{Field: field, Flag: "checkpoint-file", Group: Checkpoints, Level: Expert,
		Help:      "file of the last checkpoint",
		Otherwise: "in the store, of its last run"}
}
