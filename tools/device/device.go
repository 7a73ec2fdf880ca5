// Package device makes the device that a command computes on, by the name that --device gives.
package device

import (
	"fmt"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/host"
)

// Open makes the device of a name, "auto" (or "") for the best of this build, with so many threads where it
// computes on the processor (0: all). It is the caller's to close.
func Open(name string, threads int) (gpu.Device, error) {
	switch name {
	case "", "auto", "host":
		return host.New(host.Options{Threads: threads}), nil
	}
	return nil, fmt.Errorf("device %q is not known in this build (known: host)", name)
}
