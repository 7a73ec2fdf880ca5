//go:build !cuda

package cuda

import "github.com/gstore/gstore/gpu"

// Open returns [ErrNotBuilt].
func Open(Options) (gpu.Device, error) { return nil, ErrNotBuilt }

// Devices returns [ErrNotBuilt].
func Devices() ([]DeviceInfo, error) { return nil, ErrNotBuilt }
