//go:build deps

// Package tools keeps in go.mod the modules that the design names and code yet
// to land needs: the CUDA device and Parquet.
package tools

import (
	_ "github.com/parquet-go/parquet-go"
	_ "gorgonia.org/cu"
)
