package table

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/gstore/gstore/blocks"
)

// ParseNumber parses a finite number as the bits of an elem.
func ParseNumber(text []byte, elem blocks.ElemType) (uint64, error) {
	switch elem {
	case blocks.Int32, blocks.Int64:
		x, err := strconv.ParseInt(string(text), 10, 8*elem.Size())
		if err != nil {
			return 0, fmt.Errorf("%.40q is no integer of %d bits", text, 8*elem.Size())
		}
		return uint64(x), nil
	}
	x, err := ParseFloat(text, 8*elem.Size())
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%.40q is no finite number of %d bits", text, 8*elem.Size())
	}
	if elem == blocks.Float64 {
		return math.Float64bits(x), nil
	}
	return uint64(math.Float32bits(float32(x))), nil
}

// ParseFloat is [strconv.ParseFloat] without what only Go's sources write so: digits with underscores between them.
func ParseFloat(text []byte, bits int) (float64, error) {
	if bytes.IndexByte(text, '_') >= 0 {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(string(text), bits)
}

// IsNumber reports whether b is a number.
func IsNumber(b []byte) bool {
	_, err := ParseFloat(b, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// ParseBool is the value of True or False as pandas and others write them.
func ParseBool(b []byte) (x float64, ok bool) {
	switch string(b) {
	case "True", "true", "TRUE":
		return 1, true
	case "False", "false", "FALSE":
		return 0, true
	}
	return 0, false
}

// MissingText reports whether b stands for no value: empty, one of the words that pandas takes for missing, or what databases
// dump (COPY of PostgreSQL, INTO OUTFILE of MySQL, Hive).
func MissingText(b []byte) bool {
	if len(b) > 9 {
		return false
	}
	switch string(b) {
	case "", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "NaT", `\N`:
		return true
	}
	return false
}

// ParseID parses a node id: an integer ≥ 0, or one that a program wrote as a number with a fraction of 0 (pandas
// does, of a column of integers in which some are missing).
func ParseID(b []byte) (uint64, bool) {
	if x, ok := ParseUint(b); ok {
		return x, true
	}
	k := bytes.IndexByte(b, '.')
	if k <= 0 || len(bytes.TrimRight(b[k+1:], "0")) > 0 {
		return 0, false
	}
	return ParseUint(b[:k])
}

// ParseUint parses a decimal number; the whole of b must be one.
func ParseUint(b []byte) (uint64, bool) {
	if len(b) == 0 || len(b) > 20 {
		return 0, false
	}
	x := uint64(0)
	for _, c := range b {
		d := uint64(c - '0')
		if d > 9 {
			return 0, false
		}
		if len(b) == 20 && (x > (1<<64-1)/10 || x*10 > 1<<64-1-d) {
			return 0, false
		}
		x = x*10 + d
	}
	return x, true
}
