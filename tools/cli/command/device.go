package command

import (
	"errors"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/tools/device"
)

// OpenDevice makes the device that a command's flags name. What they cannot mean is a usage error; a driver that
// cannot be opened, or a device that fails, is not.
func OpenDevice(o device.Options) (gpu.Device, error) {
	dev, err := device.Open(o)
	if errors.Is(err, device.ErrOption) {
		err = Usage(err)
	}
	return dev, err
}
