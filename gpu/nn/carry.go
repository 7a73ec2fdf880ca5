package nn

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/blocks"
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

// Carry returns the state, as [Params.SaveState] writes it, with which a model of description c begins where another one ended: saved, of
// description from, has the values, and those of its optimiser too if steps is set; relations that came since are as in fresh, that of a new
// model of c. An error says which parameter has another shape.
func (c *LinkConfig) Carry(from *LinkConfig, saved, fresh []byte, steps bool) ([]byte, error) {
	was, err := from.parametersOf(saved)
	if err != nil {
		return nil, err
	}
	state := slices.Clone(fresh)
	is, err := c.parametersOf(state)
	if err != nil {
		return nil, err
	}
	ranges := 1
	if steps {
		copy(state[:8], saved)
		ranges = len(is)
	}
	for r := range ranges {
		for _, p := range is[r] {
			k := slices.IndexFunc(was[r], func(q Parameter) bool { return q.Name == p.Name })
			grows := p.Name == relationsParam && from.Relations < c.Relations
			if k < 0 || was[r][k].Cols != p.Cols || was[r][k].Rows != p.Rows && !grows {
				return nil, fmt.Errorf("nn: the model to begin with has no %s of [%d×%d]", p.Name, p.Rows, p.Cols)
			}
			values := was[r][k].Values
			copy(p.Values, values[:len(values)/2])
			copy(p.Values[len(p.Values)/2:], values[len(values)/2:]) // of inverse relations, which lie behind the others
		}
		if len(is[r]) != len(was[r]) {
			return nil, fmt.Errorf("nn: the model to begin with has %d parameters, expected %d", len(was[r]), len(is[r]))
		}
	}
	return state, nil
}

// RelationVectors returns the vectors of relations and, behind them, of inverse relations, [2·Relations × Dim], in what [Params.SaveState]
// wrote of a model of this description; nil without.
func (c *LinkConfig) RelationVectors(state []byte) ([]float32, error) {
	ps, err := c.Parameters(state)
	if err != nil {
		return nil, err
	}
	for _, p := range ps {
		if p.Name == relationsParam {
			x := make([]float32, p.Rows*p.Cols)
			copy(blocks.Bytes(x), p.Values)
			return x, nil
		}
	}
	return nil, nil
}
