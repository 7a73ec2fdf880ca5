package train

import (
	"fmt"
	"os"

	"github.com/gstore/gstore/blocks/blockio"
)

// states is a temporary table of one row a node: the hidden states between
// two layers. It lies off the Go heap where the budget allows and in an
// unlinked temporary file otherwise; or it is what fill reads, such as an embedding table.
type states struct {
	rowBytes int64
	slab     *blockio.Slab
	file     *os.File
	fill     func(b []byte, first uint64) error // b: whole rows from node first on
}

// newStates makes a table; dir is where a file would lie, "" the system's
// temporary directory.
func newStates(nodes uint64, rowBytes int64, inMemory bool, dir string) (*states, error) {
	s := &states{rowBytes: rowBytes}
	var err error
	if inMemory {
		s.slab, err = blockio.AllocSlab(int64(nodes)*rowBytes, blockio.SlabOptions{})
		return s, err
	}
	if s.file, err = os.CreateTemp(dir, "gstore-states-*"); err != nil {
		return nil, fmt.Errorf("train: temporary file for hidden states: %w", err)
	}
	if err := os.Remove(s.file.Name()); err != nil { // gone when closed, whatever happens
		_ = s.file.Close()
		return nil, fmt.Errorf("train: temporary file for hidden states: %w", err)
	}
	return s, nil
}

// view returns the rows from node first on in place, nil if they lie in a file.
func (s *states) view(first uint64, nodes int) []byte {
	if s.slab == nil {
		return nil
	}
	at := int64(first) * s.rowBytes
	return s.slab.Bytes()[at : at+int64(nodes)*s.rowBytes]
}

// read copies rows from node first on into b, whole rows.
func (s *states) read(b []byte, first uint64) error {
	if s.slab != nil {
		copy(b, s.slab.Bytes()[int64(first)*s.rowBytes:])
		return nil
	}
	if s.fill != nil {
		return s.fill(b, first)
	}
	if _, err := s.file.ReadAt(b, int64(first)*s.rowBytes); err != nil {
		return fmt.Errorf("train: read hidden states from node %d: %w", first, err)
	}
	return nil
}

// rows returns rows from node first on: in place, or read into *buf.
func (s *states) rows(buf **blockio.Slab, first uint64, nodes int) ([]byte, error) {
	if b := s.view(first, nodes); b != nil {
		return b, nil
	}
	if err := grow(buf, int64(nodes)*s.rowBytes); err != nil {
		return nil, err
	}
	b := (*buf).Bytes()[:int64(nodes)*s.rowBytes]
	return b, s.read(b, first)
}

// write stores whole rows from node first on.
func (s *states) write(b []byte, first uint64) error {
	if s.slab != nil {
		copy(s.slab.Bytes()[int64(first)*s.rowBytes:], b)
		return nil
	}
	if _, err := s.file.WriteAt(b, int64(first)*s.rowBytes); err != nil {
		return fmt.Errorf("train: write hidden states from node %d: %w", first, err)
	}
	return nil
}

// memory returns the bytes of memory that a table holds.
func (s *states) memory() int64 {
	if s == nil || s.slab == nil {
		return 0
	}
	return int64(len(s.slab.Bytes()))
}

func (s *states) close() {
	if s == nil {
		return
	}
	if s.slab != nil {
		_ = s.slab.Free() // temporary: nothing is lost
	}
	if s.file != nil {
		_ = s.file.Close()
	}
}
