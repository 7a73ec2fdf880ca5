package table

import (
	"testing"
	"time"
)

func TestParseMoment(t *testing.T) {
	at := func(y, m, d, h, min, s int) int64 {
		return time.Date(y, time.Month(m), d, h, min, s, 0, time.UTC).Unix()
	}
	day := at(2014, 9, 26, 0, 0, 0)
	for text, want := range map[string][2]int64{ // rounded down, and up
		"1289241911":                    {1289241911, 1289241911},
		"-5":                            {-5, -5},
		"1289241911.72836":              {1289241911, 1289241912}, // as SNAP's Bitcoin networks have it
		"36.0":                          {36, 36},
		"-1.5":                          {-2, -1},
		"2014-09-26":                    {day, day},
		"2014/09/26":                    {day, day},
		"26.09.2014":                    {day, day},
		"26.09.2014 10:20":              {at(2014, 9, 26, 10, 20, 0), at(2014, 9, 26, 10, 20, 0)},
		"2022/09/01 00:20":              {at(2022, 9, 1, 0, 20, 0), at(2022, 9, 1, 0, 20, 0)},
		"2013-12-31 16:39:18":           {at(2013, 12, 31, 16, 39, 18), at(2013, 12, 31, 16, 39, 18)},
		"2013-12-31T16:39:18.25":        {at(2013, 12, 31, 16, 39, 18), at(2013, 12, 31, 16, 39, 19)},
		"2013-12-31T16:39:18+02:00":     {at(2013, 12, 31, 14, 39, 18), at(2013, 12, 31, 14, 39, 18)},
		"2013-12-31 16:39:18Z":          {at(2013, 12, 31, 16, 39, 18), at(2013, 12, 31, 16, 39, 18)},
		"2013-12-31 16:39:18.5 UTC":     {at(2013, 12, 31, 16, 39, 18), at(2013, 12, 31, 16, 39, 19)},
		"2013-12-31 16:39:18.000-05:00": {at(2013, 12, 31, 21, 39, 18), at(2013, 12, 31, 21, 39, 18)},
	} {
		down, err := ParseTime([]byte(text))
		up, upErr := ParseRowTime([]byte(text))
		if int64(down) != want[0] || up != want[1] || err != nil || upErr != nil {
			t.Errorf("%q: %d and %d (%v, %v), expected %d", text, int64(down), up, err, upErr, want)
		}
	}
	for _, text := range []string{"", ".", "1.x", "x.5", "01/02/2014", "2014-13-01", "32.01.2014", "2014-09-26x", "2014-09-26 ", "2014-09-26 25:00", "2014-09-26 10", "1e9", "2014.09.26", "1_0.5"} {
		if x, err := ParseTime([]byte(text)); err == nil {
			t.Errorf("%q is %d", text, x)
		}
	}
	for text, want := range map[string]bool{"26.09.2014": true, "2014/09/26 x": true, "10.12.2014.5": false, "192.168.20.1": false, "1.2.2014": false, "2014": false} {
		if IsDate(text) != want {
			t.Errorf("%q is a date: %v", text, !want)
		}
	}
}
