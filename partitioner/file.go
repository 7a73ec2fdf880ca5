package partitioner

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
)

// ReadFile reads an assignment made elsewhere: node i's partition is line i
// of a text file (as gpmetis writes it), or element i of a one-dimensional .npy array of
// integers. There must be exactly `nodes` of them. partitions 0 takes as
// many as the file names. Errors are [ErrFile] and name the line or element.
func ReadFile(path string, nodes uint64, partitions int) (*Assignment, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read assignment: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	a, err := readAssignment(bufio.NewReaderSize(f, 1<<18), nodes, partitions)
	if err != nil {
		return nil, fmt.Errorf("read assignment %s: %w", path, err)
	}
	return a, nil
}

func readAssignment(r *bufio.Reader, nodes uint64, partitions int) (*Assignment, error) {
	next, unit := textValues(r), "line"
	if head, _ := r.Peek(len(npy.Magic)); string(head) == npy.Magic {
		n, err := npyValues(r, nodes)
		if err != nil {
			return nil, err
		}
		next, unit = n, "element"
	}
	top := partitions
	if top == 0 {
		top = MaxPartitions
	}
	// Grown as values arrive: a short file must not cost nodes × 4 bytes.
	part := make([]blocks.PartitionID, 0, min(nodes, 1<<20))
	seen := 0
	for {
		p, err := next()
		if err == io.EOF {
			break
		}
		at := uint64(len(part)) + 1
		if err != nil {
			return nil, fmt.Errorf("%w: %s %d: %w", ErrFile, unit, at, err)
		}
		if at > nodes {
			return nil, fmt.Errorf("%w: %s %d: the graph has only %d nodes", ErrFile, unit, at, nodes)
		}
		if p < 0 || p >= int64(top) {
			return nil, fmt.Errorf("%w: %s %d: partition %d, expected 0 to %d", ErrFile, unit, at, p, top-1)
		}
		part = append(part, blocks.PartitionID(p))
		seen = max(seen, int(p)+1)
	}
	if uint64(len(part)) != nodes {
		return nil, fmt.Errorf("%w: it ends after %d nodes of %d", ErrFile, len(part), nodes)
	}
	if partitions == 0 {
		partitions = max(seen, 1)
	}
	return &Assignment{part: part, partitions: partitions}, nil
}

func textValues(r *bufio.Reader) func() (int64, error) {
	return func() (int64, error) {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return 0, errors.New("the line is too long for a number")
		}
		text := strings.TrimSpace(string(line))
		if text == "" {
			if err == nil {
				return 0, errors.New("the line is empty, expected a partition")
			}
			return 0, err
		}
		v, perr := strconv.ParseInt(text, 10, 64)
		if perr != nil {
			return 0, fmt.Errorf("found %.40q, expected a partition", text)
		}
		return v, nil
	}
}

func npyValues(r *bufio.Reader, nodes uint64) (func() (int64, error), error) {
	h, err := npy.Read(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	size, signed := h.Elem.Size(), false
	switch h.Elem {
	case blocks.Int8, blocks.Int32, blocks.Int64:
		signed = true
	case blocks.Uint8, blocks.Uint16, blocks.Uint32, blocks.Uint64:
	default:
		size = 0
	}
	if size == 0 || len(h.Shape) != 1 {
		return nil, fmt.Errorf("%w: %v of shape %v, expected a one-dimensional array of integers", ErrFile, h.Elem, h.Shape)
	}
	if uint64(h.Rows()) != nodes {
		return nil, fmt.Errorf("%w: the array has %d elements, the graph %d nodes", ErrFile, h.Rows(), nodes)
	}
	var b [8]byte
	return func() (int64, error) {
		if _, err := io.ReadFull(r, b[:size]); err != nil {
			return 0, err // io.EOF exactly between elements
		}
		v := int64(binary.LittleEndian.Uint64(b[:]))
		if shift := 64 - 8*size; signed {
			return v << shift >> shift, nil
		} else if shift > 0 {
			return v & (1<<(8*size) - 1), nil
		}
		return v, nil // a uint64 above 2^63 turns negative and is refused
	}, nil
}
