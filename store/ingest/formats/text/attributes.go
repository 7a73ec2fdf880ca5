package text

import (
	"bytes"
	"fmt"
	"slices"
)

// networkx's write_edgelist ends each line with a dictionary of the edge's attributes, as Python shows it:
//
//	0 1 {}
//	0 2 {'weight': 0.5, 'kind': 'a'}
//
// Those that the first line has become fields, which each line must have.

// attributed cuts a line of two names and a dictionary, which it is without its braces; ok is false of any other line.
func attributed(line []byte) (src, dst, attributes []byte, ok bool) {
	line = trim(line)
	begin := bytes.IndexByte(line, '{')
	if begin < 0 || line[len(line)-1] != '}' {
		return nil, nil, nil, false
	}
	ends := bytes.Fields(line[:begin])
	if len(ends) != 2 {
		return nil, nil, nil, false
	}
	return ends[0], ends[1], line[begin+1 : len(line)-1], true
}

// eachAttribute calls f with the keys and values of a dictionary, without quotes around them; it is false where b is none.
func eachAttribute(b []byte, f func(key, value []byte)) bool {
	for b = trim(b); len(b) > 0; {
		key, rest, ok := attributePart(b, ':')
		if !ok || len(key) < 2 || key[0] != '\'' && key[0] != '"' {
			return false
		}
		value, rest, ok := attributePart(rest, ',')
		if !ok || len(value) == 0 {
			return false
		}
		f(unquoted(key), unquoted(value))
		b = rest
	}
	return true
}

// attributePart cuts off what stands before a sign that is in no quotes and no brackets, or else, where the sign is a comma, all of b.
func attributePart(b []byte, sign byte) (part, rest []byte, ok bool) {
	quote, depth := byte(0), 0
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quote != 0:
			if c == '\\' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(' || c == '[' || c == '{':
			depth++
		case c == ')' || c == ']' || c == '}':
			depth--
		case c == sign && depth == 0:
			return trim(b[:i]), trim(b[i+1:]), true
		}
	}
	return trim(b), nil, sign == ',' && quote == 0 && depth == 0
}

// unquoted is a value without quotes around it; None is nothing.
func unquoted(b []byte) []byte {
	if n := len(b); n > 1 && (b[0] == '\'' || b[0] == '"') && b[n-1] == b[0] {
		return b[1 : n-1]
	}
	if string(b) == "None" {
		return b[:0]
	}
	return b
}

// attributeNames are the keys of a line's dictionary; nil where it has none.
func attributeNames(line []byte) []string {
	_, _, attributes, ok := attributed(line)
	if !ok {
		return nil
	}
	names := []string{}
	if !eachAttribute(attributes, func(key, _ []byte) { names = append(names, string(key)) }) {
		return nil
	}
	return names
}

// splitAttributes splits a line into the ends of its edge and the values of d.attributes.
func (d Dialect) splitAttributes(fields [][]byte, line []byte) ([][]byte, error) {
	src, dst, attributes, ok := attributed(line)
	if !ok {
		return fields, fmt.Errorf("expected two nodes and a dictionary of attributes, as in the first line")
	}
	fields = append(fields, src, dst)
	at := len(fields)
	fields = append(fields, make([][]byte, len(d.attributes))...)
	found, bad := 0, error(nil)
	whole := eachAttribute(attributes, func(key, value []byte) {
		switch k := slices.Index(d.attributes, string(key)); {
		case k < 0:
			bad = fmt.Errorf("attribute %.40q, which the first line does not have", key)
		case fields[at+k] != nil:
			bad = fmt.Errorf("attribute %.40q twice", key)
		default:
			fields[at+k] = value
			found++
		}
	})
	switch {
	case !whole:
		return fields, fmt.Errorf("%.40q is no dictionary of attributes", attributes)
	case bad != nil:
		return fields, bad
	case found != len(d.attributes):
		return fields, fmt.Errorf("%d attributes, expected %q, as in the first line", found, d.attributes)
	}
	return fields, nil
}
