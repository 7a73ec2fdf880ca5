//go:build deps

// Package tools keeps in go.mod the modules that the design names and code yet
// to land needs: the CUDA device.
package tools

import (
	_ "gorgonia.org/cu"
)
