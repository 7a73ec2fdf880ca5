//go:build deps

// Package tools keeps modules that code yet to land needs in go.mod.
package tools

import (
	_ "github.com/RoaringBitmap/roaring/v2"
	_ "github.com/cockroachdb/datadriven"
	_ "github.com/cockroachdb/pebble/v2"
	_ "github.com/edsrzf/mmap-go"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/mmcloughlin/avo/build"
	_ "github.com/parquet-go/parquet-go"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "gopkg.in/yaml.v3"
	_ "gorgonia.org/cu"
	_ "pgregory.net/rapid"
)
