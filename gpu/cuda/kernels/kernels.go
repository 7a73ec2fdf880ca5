// Package kernels holds the CUDA kernels, compiled ahead of time for the
// architectures of Images and embedded. Sources are the .cu files here;
// "gpu/cuda/build.sh kernels" compiles them.
package kernels

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
)

//go:embed images
var images embed.FS

// Image returns the module for a device of compute capability major.minor, and its file's name. A cubin runs on its own
// capability and on later minors; PTX, compiled by the driver when it is loaded, on any
// later one from 8.0 on.
func Image(major, minor int) (image []byte, name string, err error) {
	if major < 8 {
		return nil, "", fmt.Errorf("cuda: the device has compute capability %d.%d, expected 8.0 (Ampere) or later", major, minor)
	}
	name = "compute_80.ptx"
	for m := minor; m >= 0; m-- {
		cubin := fmt.Sprintf("sm_%d%d.cubin", major, m)
		if f, err := images.Open("images/" + cubin + ".gz"); err == nil {
			f.Close()
			name = cubin
			break
		}
	}
	image, err = open(name)
	return image, name, err
}

func open(name string) ([]byte, error) {
	packed, err := images.ReadFile("images/" + name + ".gz")
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("cuda: unpack %s: %w", name, err)
	}
	image, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("cuda: unpack %s: %w", name, err)
	}
	return image, nil
}
