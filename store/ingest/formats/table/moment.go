package table

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// TimeMin and TimeMax bound the times of rows: the years 1 to 9999, in seconds since 1970.
const (
	TimeMin = -62135596800
	TimeMax = 253402300799
)

// IsMoment reports whether a number looks like a time: seconds since 1970, of 1980 and later.
func IsMoment(x float64) bool { return x >= 315532800 && x <= TimeMax }

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
	seconds, part, err := parseMoment(text)
	if err != nil {
		return 0, err
	}
	if part {
		seconds++
	}
	return CheckTime(seconds)
}

// ParseTime parses a number of seconds since 1970, or a date as [IsDate] has them, as such seconds, rounded down.
func ParseTime(text []byte) (uint64, error) {
	seconds, _, err := parseMoment(text)
	return uint64(seconds), err
}

// parseMoment parses a time in seconds since 1970. part says that there is a part of a second more.
func parseMoment(text []byte) (seconds int64, part bool, err error) {
	s := string(text)
	if x, err := strconv.ParseInt(s, 10, 64); err == nil {
		return x, false, nil
	}
	if t, err := parseDate(s); err == nil {
		return t.Unix(), t.Nanosecond() > 0, nil
	}
	if whole, after, ok := strings.Cut(s, "."); ok && strings.Trim(after, "0123456789") == "" { // the digits of a float are not all kept by one
		if x, err := strconv.ParseInt(whole, 10, 64); err == nil {
			if part = strings.Trim(after, "0") != ""; part && strings.HasPrefix(whole, "-") {
				x-- // down
			}
			return x, part, nil
		}
	}
	return 0, false, fmt.Errorf("%.40q is no time: neither seconds since 1970 nor a date as 2006-01-02 15:04:05, 2006/01/02 or 02.01.2006", text)
}

// dayLayout is the form of the day that s begins with, "" if it begins with none: none can be taken for another, as the month of 01/02/2006
// can, which depends on who wrote it.
func dayLayout(s string) string {
	if len(s) < len(time.DateOnly) {
		return ""
	}
	layout := ""
	switch {
	case s[4] == '-':
		layout = time.DateOnly
	case s[4] == '/':
		layout = "2006/01/02"
	case s[2] == '.':
		layout = "02.01.2006"
	default:
		return ""
	}
	if _, err := time.Parse(layout, s[:len(layout)]); err != nil {
		return ""
	}
	return layout
}

// parseDate parses a day, with a time of day or without; seconds may have a fraction.
func parseDate(s string) (time.Time, error) {
	day := dayLayout(s)
	if day == "" {
		return time.Time{}, strconv.ErrSyntax
	}
	rest := strings.TrimSuffix(s[len(day):], " UTC")
	layout := day
	if rest != "" {
		if rest[0] != ' ' && rest[0] != 'T' {
			return time.Time{}, strconv.ErrSyntax
		}
		clock, zone := rest, strings.IndexAny(rest, "Z+-")
		if zone >= 0 {
			clock = rest[:zone]
		}
		if layout += rest[:1] + "15:04"; strings.Count(clock, ":") > 1 {
			layout += ":05"
		}
		switch {
		case zone < 0:
		case len(rest)-zone == len("+0000"):
			layout += "Z0700"
		default:
			layout += "Z07:00"
		}
	}
	return time.Parse(layout, s[:len(day)]+rest)
}

// IsDate reports whether s is a day, or a day and a time: as ISO 8601 has them, with slashes in place of the hyphens, or as 02.01.2006.
func IsDate(s string) bool {
	day := dayLayout(s)
	return day != "" && (len(s) == len(day) || strings.ContainsRune("T ", rune(s[len(day)])))
}
