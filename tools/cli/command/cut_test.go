package command

import (
	"bytes"
	"testing"
)

// TestCutter: no line is longer than the terminal is wide, however it is written.
func TestCutter(t *testing.T) {
	var b bytes.Buffer
	width := 6
	c := &cutter{to: &b, width: func() int { return width }}
	for _, s := range []string{"ab", "cdefgh", "\r\x20\x20", "\rüüüüüüüü\n", "1234567\r"} {
		if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("%q: %d, %v", s, n, err)
		}
	}
	width = 4
	_, _ = c.Write([]byte("1234567"))
	if got, want := b.String(), "abcde\r  \rüüüüü\n12345\r123"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}
