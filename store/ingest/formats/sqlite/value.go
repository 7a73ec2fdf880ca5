package sqlite

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// appendCell appends a value, as the driver gives it, to wanted column k of a batch: n bytes.
func appendCell(b *table.Batch, k int, w table.Want, col *table.Column, cell any) (n int, err error) {
	le := binary.LittleEndian
	switch {
	case w.Time:
		x, err := rowTime(cell)
		b.Numbers[k] = le.AppendUint64(b.Numbers[k], uint64(x))
		return 8, err
	case w.Elem == blocks.Invalid:
		var room [32]byte
		text := appendText(room[:0], cell)
		b.Text[k].Append(text)
		return len(text) + 8, nil
	case w.Elem == blocks.Float64:
		x, err := float(cell, w.Days, col)
		b.Numbers[k] = le.AppendUint64(b.Numbers[k], math.Float64bits(x))
		return 8, err
	case w.Elem == blocks.Int64:
		x, ok := cell.(int64)
		if !ok {
			return 0, fmt.Errorf("%.40v, expected an integer", cell)
		}
		b.Numbers[k] = le.AppendUint64(b.Numbers[k], uint64(x))
		return 8, nil
	}
	return 0, fmt.Errorf("cannot be read as %v", w.Elem)
}

// rowTime is the time of a row, see [table.ParseRowTime].
func rowTime(cell any) (int64, error) {
	switch x := cell.(type) {
	case nil:
		return math.MaxInt64, nil
	case int64:
		return table.CheckTime(x)
	case float64:
		return table.CheckTime(int64(math.Ceil(max(-1e18, min(x, 1e18)))))
	case string:
		return table.ParseRowTime([]byte(x))
	}
	return 0, fmt.Errorf("%.40v is no time", cell)
}

// float is a number, or the days since 1970 of a date, whose numbers are seconds. A null is NaN.
func float(cell any, days bool, col *table.Column) (x float64, err error) {
	switch v := cell.(type) {
	case nil:
		return math.NaN(), nil
	case int64:
		x = float64(v)
	case float64:
		x = v
	case string:
		b := []byte(v)
		switch {
		case table.MissingText(b):
			return math.NaN(), nil
		case days:
			seconds, err := table.ParseTime(b)
			if err != nil {
				return 0, err
			}
			x = float64(int64(seconds))
		case col.Boolean:
			var ok bool
			if x, ok = table.ParseBool(b); !ok {
				return 0, fmt.Errorf("%.40q is not True or False", v)
			}
		default:
			if x, err = table.ParseFloat(b, 64); err != nil {
				return 0, fmt.Errorf("%.40q is no finite number", v)
			}
		}
	default:
		return 0, fmt.Errorf("%.40v is no number", cell)
	}
	if math.IsInf(x, 0) {
		return 0, fmt.Errorf("%v is no finite number", x)
	}
	if days {
		x /= 24 * 60 * 60
	}
	return x, nil
}

// appendText appends a value as text; that of a null is empty.
func appendText(out []byte, cell any) []byte {
	switch x := cell.(type) {
	case int64:
		return strconv.AppendInt(out, x, 10)
	case float64:
		return strconv.AppendFloat(out, x, 'g', -1, 64)
	case string:
		return append(out, x...)
	case []byte:
		return append(out, x...)
	}
	return out
}
