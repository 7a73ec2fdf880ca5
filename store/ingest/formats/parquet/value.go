package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Integer is the value of an integer column; unsigned ones of 64 bits keep their bits.
func (r *columnReader) integer(v parquet.Value) int64 {
	if v.Kind() == parquet.Int96 {
		return int96Nanoseconds(v)
	}
	switch r.col.Elem {
	case blocks.Uint8:
		if v.Boolean() {
			return 1
		}
		return 0
	case blocks.Int32:
		return int64(v.Int32())
	case blocks.Uint32:
		return int64(v.Uint32())
	}
	return v.Int64()
}

// float is the value of any column of numbers.
func (r *columnReader) float(v parquet.Value) float64 {
	if r.leaf.decimal {
		x, err := decimalValue(v, r.leaf.scale)
		if err != nil {
			return math.Inf(1) // refused as no finite number
		}
		return x
	}
	if r.col.Date { // days since 1970
		return float64(r.integer(v)) / r.leaf.perDay
	}
	switch r.col.Elem {
	case blocks.Float32:
		return float64(v.Float())
	case blocks.Float64:
		return v.Double()
	case blocks.Uint64:
		return float64(v.Uint64())
	}
	return float64(r.integer(v))
}

// appendTime appends v as the time of a row: seconds since 1970, rounded up, math.MaxInt64 where there is none.
func (r *columnReader) appendTime(out []byte, v parquet.Value) ([]byte, error) {
	x, err := int64(math.MaxInt64), error(nil)
	switch {
	case v.IsNull():
	case r.col.Text:
		x, err = table.ParseRowTime(v.ByteArray())
	case r.col.Date:
		x = r.integer(v)
		down := r.leaf.seconds(x)
		if per := int64(r.leaf.perDay) / secondsPerDay; per > 0 && x%per != 0 {
			down++
		}
		x, err = table.CheckTime(down)
	case r.col.Elem == blocks.Float32 || r.col.Elem == blocks.Float64 || r.leaf.decimal:
		if f := r.float(v); !math.IsNaN(f) {
			x, err = table.CheckTime(int64(math.Ceil(max(-1e18, min(f, 1e18)))))
		}
	default:
		x, err = table.CheckTime(r.integer(v))
	}
	return binary.LittleEndian.AppendUint64(out, uint64(x)), err
}

// appendNumber appends v as an elem: node ids as Uint64, masks as Uint8, all
// else in the column's type or as float. A null is NaN: no label, or a feature that is missing.
func (r *columnReader) appendNumber(out []byte, v parquet.Value, elem blocks.ElemType) ([]byte, error) {
	le := binary.LittleEndian
	if r.col.Text {
		return out, fmt.Errorf("a string, expected a number")
	}
	if v.IsNull() {
		switch elem {
		case blocks.Float64:
			return le.AppendUint64(out, math.Float64bits(math.NaN())), nil
		case blocks.Float32:
			return le.AppendUint32(out, math.Float32bits(float32(math.NaN()))), nil
		case blocks.Float16:
			return le.AppendUint16(out, blocks.Float16Bits(float32(math.NaN()))), nil
		case blocks.Uint8: // a mask
			return append(out, 0), nil
		}
		return out, errors.New("null, expected a number")
	}
	if (r.col.Elem == blocks.Float16) != (elem == blocks.Float16) {
		return out, fmt.Errorf("column of type %v, expected %v", r.col.Elem, elem)
	}
	if (r.col.Elem == blocks.Float32 || r.col.Elem == blocks.Float64) && elem != blocks.Float32 && elem != blocks.Float64 {
		// pandas makes floats of a column of integers in which some are missing.
		if x := r.float(v); elem == blocks.Uint64 && x >= 0 && x < 1<<53 && x == math.Trunc(x) {
			return le.AppendUint64(out, uint64(x)), nil
		}
		return out, fmt.Errorf("%v, expected an integer", v)
	}
	switch elem {
	case blocks.Uint64:
		x := r.integer(v)
		if x < 0 && !r.leaf.unsigned {
			return out, fmt.Errorf("%d, expected a number ≥ 0", x)
		}
		return le.AppendUint64(out, uint64(x)), nil
	case blocks.Int64:
		x := r.integer(v)
		if r.col.Date { // seconds since 1970
			x = r.leaf.seconds(x)
		}
		return le.AppendUint64(out, uint64(x)), nil
	case blocks.Int32, blocks.Uint32:
		x := r.integer(v)
		if elem == blocks.Int32 && x != int64(int32(x)) || elem == blocks.Uint32 && x != int64(uint32(x)) {
			return out, fmt.Errorf("%d, expected a number of 32 bits", x)
		}
		return le.AppendUint32(out, uint32(x)), nil
	case blocks.Uint8:
		if r.integer(v) != 0 {
			return append(out, 1), nil
		}
		return append(out, 0), nil
	case blocks.Float16:
		if b := v.Bytes(); len(b) == 2 {
			return append(out, b...), nil
		}
		return out, errors.New("expected a float16")
	case blocks.Float64:
		return le.AppendUint64(out, math.Float64bits(r.float(v))), nil
	case blocks.Float32:
		return le.AppendUint32(out, math.Float32bits(float32(r.float(v)))), nil
	}
	return out, fmt.Errorf("cannot be read as %v", elem)
}
