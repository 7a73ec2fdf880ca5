package store

import (
	"fmt"

	"github.com/gstore/gstore/blocks"
)

// LabelSetsBytesMax bounds what the sets of labels of a store take, since its manifest holds them.
const LabelSetsBytesMax = 64 << 20

// LabelSets are the different sets of labels that nodes have, where a node may have several (multi-label classification). A node's entry
// in the label column is the number of its set, so that whatever carries classes carries sets.
type LabelSets struct {
	labels int
	bits   []byte // LabelSetBytes(labels) a set
}

// LabelSetBytes is what a set of so many labels takes: bit j%8 of byte j/8 says that label j is in it, bits above the last label are 0.
func LabelSetBytes(labels int) int { return (labels + 7) / 8 }

// NewLabelSets returns the sets of bits, as [LabelSetBytes] has them one after the other; they belong to the result.
func NewLabelSets(labels int, bits []byte) *LabelSets { return &LabelSets{labels, bits} }

// LabelSets are the sets of labels that nodes have, nil = a node has one label at most, or a number.
func (m *Manifest) LabelSets() *LabelSets {
	if c := m.Labels(); c != nil && c.Sets != nil {
		return NewLabelSets(m.Schema.Classes, c.Sets)
	}
	return nil
}

// LabelValues is what entries of the label column are below where they are no numbers: classes, or sets of labels.
func (m *Manifest) LabelValues() int {
	if s := m.LabelSets(); s != nil {
		return s.Len()
	}
	return m.Schema.Classes
}

// Labels is how many labels there are, of which a set has any number.
func (s *LabelSets) Labels() int { return s.labels }

// Len is the number of sets.
func (s *LabelSets) Len() int { return len(s.bits) / LabelSetBytes(s.labels) }

// Has reports whether label j is in a set.
func (s *LabelSets) Has(set int32, j int) bool {
	return s.bits[int(set)*LabelSetBytes(s.labels)+j/8]>>(j%8)&1 == 1
}

// Of lists the labels of a set, ascending, behind dst.
func (s *LabelSets) Of(set int32, dst []int) []int {
	for j := range s.labels {
		if s.Has(set, j) {
			dst = append(dst, j)
		}
	}
	return dst
}

// Words are the sets as devices read them: ⌈labels/32⌉ words a set, bit j%32 of word j/32 being label j. nil of nil.
func (s *LabelSets) Words() []int32 {
	if s == nil {
		return nil
	}
	width, bytes := (s.labels+31)/32, LabelSetBytes(s.labels)
	words := make([]int32, s.Len()*width)
	for i := range s.Len() {
		for b, x := range s.bits[i*bytes : (i+1)*bytes] {
			words[i*width+b/4] |= int32(x) << (8 * (b % 4))
		}
	}
	return words
}

// WordsBytes is what [LabelSets.Words] takes; 0 of nil.
func (s *LabelSets) WordsBytes() int64 {
	if s == nil {
		return 0
	}
	return int64(s.Len()) * int64((s.labels+31)/32) * 4
}

// validateSets says what is wrong with the sets of column c.
func (m *Manifest) validateSets(c *ColumnInfo) error {
	width := LabelSetBytes(m.Schema.Classes)
	switch {
	case c.Sets == nil:
		return nil
	case c.Role != RoleLabel || c.Elem != blocks.Int32 || c.Dim != 1 || c.Numbers:
		return fmt.Errorf("%w: column %q of role %s is %d × %v and has sets of labels, expected 1 × %v of role %s", ErrInvalid, c.Name, c.Role, c.Dim, c.Elem, blocks.Int32, RoleLabel)
	case width == 0 || len(c.Sets) == 0 || len(c.Sets)%width != 0:
		return fmt.Errorf("%w: sets of %d labels in %d bytes, expected some of %d bytes each", ErrInvalid, m.Schema.Classes, len(c.Sets), width)
	}
	if rest := m.Schema.Classes % 8; rest > 0 {
		for i := width - 1; i < len(c.Sets); i += width {
			if c.Sets[i]>>rest != 0 {
				return fmt.Errorf("%w: set %d has labels beyond the last of %d", ErrInvalid, i/width, m.Schema.Classes)
			}
		}
	}
	return nil
}
