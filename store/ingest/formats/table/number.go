package table

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gstore/gstore/blocks"
)

// TimeMin and TimeMax bound the times of rows: the years 1 to 9999, in seconds since 1970.
const (
	TimeMin = -62135596800
	TimeMax = 253402300799
)

// CheckTime refuses a time of a row that is out of bounds.
func CheckTime(seconds int64) (int64, error) {
	if seconds < TimeMin || seconds > TimeMax {
		return 0, fmt.Errorf("the time %d is none of the years 1 to 9999: numbers are taken for seconds since 1970", seconds)
	}
	return seconds, nil
}

// ParseRowTime parses the time of a row in seconds since 1970, rounded up, so that no row is known before it was. What is missing is
// math.MaxInt64.
func ParseRowTime(text []byte) (int64, error) {
	if MissingText(text) {
		return math.MaxInt64, nil
	}
	if x, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return CheckTime(x)
	}
	for _, layout := range timeLayouts() {
		if t, err := time.Parse(layout, string(text)); err == nil {
			x := t.Unix()
			if t.Nanosecond() > 0 {
				x++
			}
			return CheckTime(x)
		}
	}
	x, err := ParseTime(text)
	if err != nil {
		return 0, err
	}
	return CheckTime(int64(x))
}

// timeLayouts are the forms that a date may have; seconds may have a fraction in all.
func timeLayouts() []string {
	return []string{time.DateOnly, time.DateTime, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00"}
}

// ParseTime parses a date, with a time of day or without, as seconds since 1970; or an integer that has a fraction of 0.
func ParseTime(text []byte) (uint64, error) {
	if x, ok := ParseID(text); ok && x <= math.MaxInt64 {
		return x, nil
	}
	for _, layout := range timeLayouts() {
		if t, err := time.Parse(layout, string(text)); err == nil {
			return uint64(t.Unix()), nil
		}
	}
	return 0, fmt.Errorf("%.40q is no time: neither an integer nor a date as 2006-01-02 15:04:05", text)
}

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

// MissingText reports whether b stands for no value: empty, or one of the words that pandas takes for missing.
func MissingText(b []byte) bool {
	if len(b) > 9 {
		return false
	}
	switch string(b) {
	case "", "NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "NaT":
		return true
	}
	return false
}

// IsDate reports whether s is a date, or a date and a time, as ISO 8601 has them.
func IsDate(s string) bool {
	if len(s) < len(time.DateOnly) {
		return false
	}
	if _, err := time.Parse(time.DateOnly, s[:len(time.DateOnly)]); err != nil {
		return false
	}
	return len(s) == len(time.DateOnly) || strings.ContainsRune("T ", rune(s[len(time.DateOnly)]))
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
