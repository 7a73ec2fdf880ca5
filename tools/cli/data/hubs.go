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
const hubsUsage = "which nodes to pin in memory, those that matter most to training nodes: a share of all nodes, such as 0.01; " +
	"as many as fit a size, such as 64MiB; auto (one partition's worth, if that keeps clearly more neighbours in memory); " +
	"or train (all training nodes and no others, for --plan trainnodes). With hdr they are the nodes of highest degree, 0.01 of all by default"

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
