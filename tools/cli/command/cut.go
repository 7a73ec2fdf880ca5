package command

import (
	"io"
	"unicode/utf8"
)

// cutter passes on what fits a terminal's lines: a line of progress that is longer would be wrapped, and the next one written
// below it.
type cutter struct {
	to     io.Writer
	width  func() int // columns, asked for every line: windows change
	column int
	limit  int
	out    []byte
}

// Write implements io.Writer; it reports all of b written.
func (c *cutter) Write(b []byte) (int, error) {
	c.out = c.out[:0]
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == '\r' || r == '\n':
			c.column = 0
			c.out = append(c.out, rest[:n]...)
		default:
			if c.column == 0 {
				c.limit = c.width() - 1 // in the last column some terminals wrap
			}
			if c.column++; c.column <= c.limit {
				c.out = append(c.out, rest[:n]...)
			}
		}
		rest = rest[n:]
	}
	if _, err := c.to.Write(c.out); err != nil {
		return 0, err
	}
	return len(b), nil
}
