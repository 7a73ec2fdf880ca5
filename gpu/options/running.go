package options

import "github.com/gstore/gstore/gpu/progress"

// Running is what a run may use and where it is kept, alike in every task whose graph lies in memory: a configuration embeds it.
type Running struct {
	MemoryBytes int64  `json:"mem_bytes" resume:"free"` // of the whole run; 0: no bound
	IOEngine    string `json:"io_engine" resume:"free"` // default "auto"
	Device      string `json:"device" resume:"free"`    // default "auto"
	// DeviceMemoryBytes bounds the memory allocated on a GPU; 0: what is free, less a tenth. MatMul says how matrices
	// are multiplied: "exact" (default), "tf32" (GPUs) or "bf16" (GPUs, and processors with AMX).
	DeviceMemoryBytes int64  `json:"device_mem_bytes,omitempty" resume:"free"`
	MatMul            string `json:"matmul,omitempty"`
	Threads           int    `json:"threads" resume:"free"` // default: all processors
	// CheckpointFile is where the run keeps what it can be resumed from, as often as CheckpointEvery says and where its
	// context ends it; no file: none. Resume goes on from there; where there is none, a run begins. The result is an
	// uninterrupted run's to the bit.
	CheckpointFile string `json:"-" resume:"free"`
	// CheckpointEvery is in epochs ("1", the default), mini-batches ("500steps") or time ("10m"); "0" is only at the end.
	CheckpointEvery string `json:"checkpoint_every,omitempty" resume:"free"`
	Resume          bool   `json:"-" resume:"free"`
	// Given names fields, by their JSON names, that the caller set: a run that is resumed is held to them though they
	// be zero.
	Given []string `json:"-" resume:"free"`
}

// RunningOptions are the options of [Running]; of returns a configuration's.
func RunningOptions[C any](of func(*C) *Running) []Option[C] {
	return []Option[C]{
		Memory(func(c *C) any { return &of(c).MemoryBytes }),
		IOEngine(func(c *C) any { return &of(c).IOEngine }),
		Device(func(c *C) any { return &of(c).Device }),
		DeviceMemory(func(c *C) any { return &of(c).DeviceMemoryBytes }),
		MatMul(func(c *C) any { return &of(c).MatMul }),
		Threads(func(c *C) any { return &of(c).Threads }),
		CheckpointFile(func(c *C) any { return &of(c).CheckpointFile }),
		{
			Field: func(c *C) any { return &of(c).CheckpointEvery }, Group: Checkpoints,
			Default: "1", Values: Text(progress.Intervals, progress.IsInterval),
		},
		Resume(func(c *C) any { return &of(c).Resume }),
	}
}
