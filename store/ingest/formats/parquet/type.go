package parquet

import (
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// parquetLeaf is where a column's values are, and what they mean beyond their type.
type parquetLeaf struct {
	index    int     // among the file's leaves
	level    int     // definition level of a value that is not null
	listed   int     // of lists: definition level from which on a value is an element
	unsigned bool    // integers
	perDay   float64 // of dates: the column's numbers a day
	decimal  bool    // numbers are units of 10^−scale
	scale    int
}

// Days and their parts in dates.
const (
	secondsPerDay = 24 * 60 * 60
	julianEpoch   = 2440588 // the Julian day of 1970-01-01
)

// decimalBytesMax bounds decimals: what 38 digits, more than any writer's, take.
const decimalBytesMax = 16

// Describe finds out what a leaf of type p holds, in l and col; col.strange says of what type it is if it cannot be read.
func (l *parquetLeaf) describe(p parquet.Type, col *table.Column) {
	half := false
	if t := p.LogicalType(); t != nil {
		switch x := t.Value.(type) {
		case *format.IntType:
			l.unsigned = !x.IsSigned
		case *format.Float16Type:
			half = true
		case *format.DecimalType:
			l.decimal, l.scale = true, int(x.Scale)
		case *format.DateType:
			l.perDay = 1
		case *format.TimestampType:
			switch x.Unit.Value.(type) {
			case *format.MilliSeconds:
				l.perDay = secondsPerDay * 1e3
			case *format.NanoSeconds:
				l.perDay = secondsPerDay * 1e9
			default:
				l.perDay = secondsPerDay * 1e6
			}
		case *format.NullType:
			col.Empty = true
		}
	}
	switch p.Kind() {
	case parquet.Boolean:
		col.Elem = blocks.Uint8
	case parquet.Int32:
		if col.Elem = blocks.Int32; l.unsigned {
			col.Elem = blocks.Uint32
		}
	case parquet.Int64:
		if col.Elem = blocks.Int64; l.unsigned {
			col.Elem = blocks.Uint64
		}
	case parquet.Int96: // nanoseconds of a day, and the day
		col.Elem, l.perDay = blocks.Int64, secondsPerDay*1e9
	case parquet.Float:
		col.Elem = blocks.Float32
	case parquet.Double:
		col.Elem = blocks.Float64
	case parquet.ByteArray:
		col.Text = !l.decimal
	case parquet.FixedLenByteArray:
		if half && p.Length() == 2 {
			col.Elem = blocks.Float16
		}
	}
	if l.decimal {
		col.Elem = blocks.Float64
		if p.Kind() == parquet.FixedLenByteArray && p.Length() > decimalBytesMax {
			col.Elem = blocks.Invalid
		}
	}
	if col.Date = l.perDay > 0; col.Empty {
		col.Elem, col.Text = blocks.Int32, false
	}
	if col.Elem == blocks.Invalid && !col.Text {
		col.Strange = fmt.Sprintf("of type %v", p)
	}
}

// decimalValue is the value of a decimal.
func decimalValue(v parquet.Value, scale int) (float64, error) {
	var x float64
	switch v.Kind() {
	case parquet.Int32:
		x = float64(v.Int32())
	case parquet.Int64:
		x = float64(v.Int64())
	default: // two's complement, the highest byte first
		b := v.ByteArray()
		if len(b) > decimalBytesMax {
			return 0, fmt.Errorf("a decimal of %d bytes, expected at most %d", len(b), decimalBytesMax)
		}
		for k, c := range b {
			if k == 0 {
				x = float64(int8(c))
			} else {
				x = x*256 + float64(c)
			}
		}
	}
	return x / math.Pow10(scale), nil
}

// int96Nanoseconds is the time of a value of type INT96, in nanoseconds since 1970.
func int96Nanoseconds(v parquet.Value) int64 {
	t := v.Int96()
	return (int64(t[2])-julianEpoch)*(secondsPerDay*1e9) + (int64(t[1])<<32 | int64(t[0]))
}

// seconds is a date of the column in seconds since 1970, rounded down.
func (l *parquetLeaf) seconds(x int64) int64 {
	per := int64(l.perDay) / secondsPerDay
	if per == 0 { // days
		return x * secondsPerDay
	}
	s := x / per
	if x%per < 0 {
		s--
	}
	return s
}
