package nn

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
)

// Carry returns the parameters, as [Params.Save] writes them, with which a model of description c begins where another one ended: saved, of
// description from. They are that one's; nodes that came since, which have rows of their own in vectors of categories, begin with the mean of
// the rows that there are. An error says which parameter has another shape.
func (c *Config) Carry(from *Config, saved []byte) (params []byte, err error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	old, err := from.Parameters(saved)
	if err != nil {
		return nil, err
	}
	named := map[string]Parameter{}
	for _, p := range old {
		named[p.Name] = p
	}
	p := c.declare(nil).params
	for i, s := range p.specs {
		name := p.list[i].Name
		had, ok := named[name]
		if ok && s.rows > had.Rows && strings.HasPrefix(name, "input.") && strings.HasSuffix(name, ".vectors") {
			had.Values, had.Rows = append(slices.Clip(had.Values), meanRows(had, s.rows-had.Rows)...), s.rows
			named[name] = had
		}
	}
	return c.join(named)
}

// meanRows is n rows, each the mean of those of a table of vectors but its first, which stands for none.
func meanRows(p Parameter, n int) (rows []byte) {
	mean := make([]float64, p.Cols)
	for i := p.Cols; i < p.Rows*p.Cols; i++ {
		mean[i%p.Cols] += float64(math.Float32frombits(binary.LittleEndian.Uint32(p.Values[4*i:]))) / float64(p.Rows-1)
	}
	for range n {
		for _, v := range mean {
			rows = binary.LittleEndian.AppendUint32(rows, math.Float32bits(float32(v)))
		}
	}
	return rows
}
