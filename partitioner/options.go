package partitioner

import (
	"context"
	"fmt"
	"strings"
)

// Method names a partitioner as flags do: "random", "range", "fennel",
// "gap", "hdr" or "file:PATH".
type Method string

// The methods.
const (
	MethodRandom Method = "random"
	MethodRange  Method = "range"
	MethodFennel Method = "fennel"
	MethodGAP    Method = "gap"
	MethodHDR    Method = "hdr"
	methodFile          = "file:"
)

// ParseMethod checks a method's name; "" is random.
func ParseMethod(name string) (Method, error) {
	switch m := Method(name); m {
	case "":
		return MethodRandom, nil
	case MethodRandom, MethodRange, MethodFennel, MethodGAP, MethodHDR:
		return m, nil
	default:
		if path, ok := m.File(); ok && path != "" {
			return m, nil
		}
		return "", fmt.Errorf("%w: unknown partitioner %q (known: random, range, fennel, gap, hdr, file:PATH)", ErrOption, name)
	}
}

// File returns the path of a "file:PATH" method.
func (m Method) File() (path string, ok bool) { return strings.CutPrefix(string(m), methodFile) }

// NeedsGraph reports whether the method reads the graph: [Partition] may be
// given a nil graph otherwise, with Options.Nodes set.
func (m Method) NeedsGraph() bool {
	switch m {
	case MethodFennel, MethodGAP, MethodHDR:
		return true
	}
	return false
}

// Options of [Partition]. The zero value of a field means its default.
type Options struct {
	Method     Method // default random
	Partitions int    // without pinned ones; required
	Seed       uint64
	Nodes      uint64 // needed only when the graph is nil
}

// Partition assigns every node of g by the method of o.
func Partition(_ context.Context, g Graph, o Options) (Assigner, error) {
	method, err := ParseMethod(string(o.Method))
	if err != nil {
		return nil, err
	}
	nodes := o.Nodes
	if g != nil {
		nodes = g.Nodes()
	}
	switch method {
	case MethodRandom:
		return NewRandom(nodes, o.Partitions, o.Seed)
	case MethodRange:
		return NewRange(nodes, o.Partitions)
	}
	return nil, fmt.Errorf("%w: partitioner %s is not there yet", ErrOption, method)
}
