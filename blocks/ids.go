package blocks

import "fmt"

// NodeID is a node's internal id: dense, 0 ≤ id < nodes, consecutive within a
// partition. Part of the format: 64 bits wherever a global id is stored.
type NodeID uint64

// PartitionID names a partition: 0 ≤ id < partitions.
type PartitionID uint32

// RelationID names a relation (edge type): 0 ≤ id < relations.
type RelationID uint32

// ElemType is the type of one element of a column (a feature, a label, an
// edge attribute). The numbers are part of the format; never renumber.
type ElemType uint16

// Element types.
const (
	Invalid  ElemType = 0
	Float32  ElemType = 1
	Float16  ElemType = 2
	BFloat16 ElemType = 3
	Int8     ElemType = 4 // quantised; a scale per column lies in the schema
	Float64  ElemType = 5
	Int32    ElemType = 6
	Int64    ElemType = 7
	Uint8    ElemType = 8
	Uint16   ElemType = 9
	Uint32   ElemType = 10
	Uint64   ElemType = 11
)

var elemTypes = [...]struct {
	name string
	size int
}{
	Invalid: {"invalid", 0}, Float32: {"float32", 4}, Float16: {"float16", 2},
	BFloat16: {"bfloat16", 2}, Int8: {"int8", 1}, Float64: {"float64", 8},
	Int32: {"int32", 4}, Int64: {"int64", 8}, Uint8: {"uint8", 1},
	Uint16: {"uint16", 2}, Uint32: {"uint32", 4}, Uint64: {"uint64", 8},
}

// Size returns the bytes of one element; 0 for a type this version does not know.
func (t ElemType) Size() int {
	if int(t) >= len(elemTypes) {
		return 0
	}
	return elemTypes[t].size
}

// String returns the name used in flags and messages, such as "float32".
func (t ElemType) String() string {
	if int(t) >= len(elemTypes) {
		return fmt.Sprintf("elemtype(%d)", uint16(t))
	}
	return elemTypes[t].name
}

// ParseElemType is the inverse of [ElemType.String].
func ParseElemType(name string) (ElemType, error) {
	for t, e := range elemTypes {
		if e.name == name && ElemType(t) != Invalid {
			return ElemType(t), nil
		}
	}
	return Invalid, fmt.Errorf("unknown element type %q (known: float32, float16, bfloat16, int8, float64, int32, int64, uint8, uint16, uint32, uint64)", name)
}

// MarshalText returns the type's name; invalid types fail.
func (t ElemType) MarshalText() ([]byte, error) {
	if t.Size() == 0 {
		return nil, fmt.Errorf("cannot name %v", t)
	}
	return []byte(t.String()), nil
}

// UnmarshalText is the inverse of [ElemType.MarshalText].
func (t *ElemType) UnmarshalText(b []byte) error {
	var err error
	*t, err = ParseElemType(string(b))
	return err
}
