package data

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/gstore/gstore/tools/cli/command"
)

// hubsFlag says how much is pinned as hubs: a share of the nodes ("0.01"), or a size
// with a unit ("64MiB") that their columns may take, what is measured to pay ("auto"), or the training nodes ("train").
type hubsFlag struct {
	share float64
	bytes int64
	auto  bool
	train bool
}

// hubsUsage begins the help of flags of this type.
const hubsUsage = "nodes that are pinned, by influence on training nodes (hdr: by degree, 0.01 if not given): a share of them, such as 0.01, what they may take, such as 64MiB, or auto: a partition's worth (at most 1/64) where that keeps clearly more of training nodes' neighbours in memory; or train: all training nodes and no others, for --plan trainnodes"

const hubsExpected = "expected a share of the nodes from 0 to 0.5, a size with a unit, such as 64MiB, auto or train"

// String implements pflag.Value.
func (f *hubsFlag) String() string {
	switch {
	case f.auto:
		return "auto"
	case f.train:
		return "train"
	}
	if f.bytes > 0 {
		return strconv.FormatInt(f.bytes, 10) + "B"
	}
	return strconv.FormatFloat(f.share, 'g', -1, 64)
}

// Set implements pflag.Value.
func (f *hubsFlag) Set(s string) error {
	if s == "auto" || s == "train" {
		*f = hubsFlag{auto: s == "auto", train: s == "train"}
		return nil
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		if !(v >= 0 && v <= 0.5) {
			return fmt.Errorf("%g of the nodes: %s", v, hubsExpected)
		}
		*f = hubsFlag{share: v}
		return nil
	}
	n, err := command.ParseSize(s)
	if err != nil || n == 0 {
		return errors.New(hubsExpected)
	}
	*f = hubsFlag{bytes: n}
	return nil
}

// Type implements pflag.Value.
func (f *hubsFlag) Type() string { return "share|size|auto|train" }
