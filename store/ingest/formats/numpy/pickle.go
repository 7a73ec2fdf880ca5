package numpy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// pickleMark is where a tuple's or a dictionary's items begin.
type pickleMark struct{}

var errPickle = errors.New("no pickle of numbers, text, arrays and what holds them")

// unpickle reads a pickle of protocol 2 to 5 as data.
func unpickle(b []byte) (top any, err error) {
	p := &pickle{rest: b, memo: map[uint32]any{}}
	for {
		done, err := p.next()
		if err != nil {
			return nil, err
		}
		if done {
			return p.pop()
		}
	}
}

type pickle struct {
	rest  []byte
	stack []any
	memo  map[uint32]any
}

func (p *pickle) take(n uint64) ([]byte, error) {
	if n > uint64(len(p.rest)) {
		return nil, fmt.Errorf("%w: it ends too early", errPickle)
	}
	b := p.rest[:n]
	p.rest = p.rest[n:]
	return b, nil
}

// number takes an unsigned integer of n bytes.
func (p *pickle) number(n uint64) (uint64, error) {
	b, err := p.take(n)
	if err != nil {
		return 0, err
	}
	var x [8]byte
	copy(x[:], b)
	return binary.LittleEndian.Uint64(x[:]), nil
}

// sized takes bytes behind their number, which has n bytes.
func (p *pickle) sized(n uint64) ([]byte, error) {
	size, err := p.number(n)
	if err != nil {
		return nil, err
	}
	return p.take(size)
}

// line takes text up to the end of a line.
func (p *pickle) line() (string, error) {
	n := bytes.IndexByte(p.rest, '\n')
	if n < 0 {
		return "", errPickle
	}
	text := string(p.rest[:n])
	p.rest = p.rest[n+1:]
	return text, nil
}

func (p *pickle) push(v any) { p.stack = append(p.stack, v) }

func (p *pickle) pop() (any, error) {
	if len(p.stack) == 0 {
		return nil, errPickle
	}
	v := p.stack[len(p.stack)-1]
	p.stack = p.stack[:len(p.stack)-1]
	return v, nil
}

// last pops n values into a tuple.
func (p *pickle) last(n int) ([]any, error) {
	if n > len(p.stack) {
		return nil, errPickle
	}
	at := len(p.stack) - n
	list := slices.Clone(p.stack[at:])
	p.stack = p.stack[:at]
	return list, nil
}

// marked pops what is behind the last mark, and the mark.
func (p *pickle) marked() ([]any, error) {
	for at := len(p.stack) - 1; at >= 0; at-- {
		if _, ok := p.stack[at].(pickleMark); ok {
			list := slices.Clone(p.stack[at+1:])
			p.stack = p.stack[:at]
			return list, nil
		}
	}
	return nil, errPickle
}

// set puts keys and values into the dictionary on the stack.
func (p *pickle) set(items []any) error {
	if len(p.stack) == 0 || len(items)%2 != 0 {
		return errPickle
	}
	var d *Dict
	switch to := p.stack[len(p.stack)-1].(type) {
	case *Dict:
		d = to
	case *Object:
		d = &to.Items
	default:
		return errPickle
	}
	for i := 0; i < len(items); i += 2 {
		d.Keys, d.Values = append(d.Keys, keyOf(items[i])), append(d.Values, items[i+1])
	}
	return nil
}

// keyOf is a key of a dictionary; bytes become text, so that keys can be compared.
func keyOf(key any) any {
	if b, ok := key.([]byte); ok {
		return string(b)
	}
	return key
}

// add puts items at the end of the list on the stack.
func (p *pickle) add(items []any) error {
	if len(p.stack) == 0 {
		return errPickle
	}
	switch to := p.stack[len(p.stack)-1].(type) {
	case *List:
		to.Items = append(to.Items, items...)
	case *Object: // of a class that is a list
	default:
		return errPickle
	}
	return nil
}

// call replaces a function or a class, its arguments and, if named, those by name, by what they stand for.
func (p *pickle) call(named bool) error {
	n := 2
	if named {
		n++
	}
	ends, err := p.last(n)
	if err != nil {
		return err
	}
	fn, _ := ends[0].(global) // what else can be called stands for nothing that is read
	args, tuple := ends[1].([]any)
	if !tuple {
		return errPickle
	}
	p.push(&Object{Class: string(fn), Args: args})
	return nil
}

// build gives the value below the top of the stack its state.
func (p *pickle) build() error {
	state, err := p.pop()
	if err != nil || len(p.stack) == 0 {
		return errPickle
	}
	c, ok := p.stack[len(p.stack)-1].(*Object)
	if !ok {
		return errPickle
	}
	c.State = state
	return nil
}

func (p *pickle) remember(at uint64) error {
	if len(p.stack) == 0 {
		return errPickle
	}
	p.memo[uint32(at)] = p.stack[len(p.stack)-1]
	return nil
}

func (p *pickle) recall(at uint64) error {
	v, ok := p.memo[uint32(at)]
	if !ok {
		return errPickle
	}
	p.push(v)
	return nil
}

// next does one instruction, and reports whether it was the last.
func (p *pickle) next() (done bool, err error) {
	op, err := p.take(1)
	if err != nil {
		return false, err
	}
	switch op[0] {
	case '.':
		return true, nil
	case 0x80: // the protocol's number
		_, err = p.take(1)
	case 0x95: // the length of a frame
		_, err = p.take(8)
	case '(':
		p.push(pickleMark{})
	case '}':
		p.push(&Dict{})
	case ']', 0x8f: // a list, a set
		p.push(&List{})
	case ')':
		p.push([]any{})
	case 'N':
		p.push(nil)
	case 0x88, 0x89:
		p.push(op[0] == 0x88)
	default:
		if known, err := p.value(op[0]); known || err != nil {
			return false, err
		}
		return false, p.operation(op[0])
	}
	return false, err
}

// value pushes what instructions have in them: numbers, texts, bytes, names.
func (p *pickle) value(op byte) (known bool, err error) {
	var n uint64
	var b []byte
	switch op {
	case 'K', 'M', 'J':
		if n, err = p.number(map[byte]uint64{'K': 1, 'M': 2, 'J': 4}[op]); op == 'J' {
			n = uint64(int32(n))
		}
		p.push(int64(n))
	case 0x8a: // little-endian, of two's complement
		if b, err = p.sized(1); err == nil && len(b) <= 8 {
			p.push(signed(b))
		} else if err == nil {
			err = errPickle
		}
	case 'G':
		if b, err = p.take(8); err == nil {
			p.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
		}
	case 'X', 0x8c, 0x8d, 'T', 'U': // the last two of Python 2, where bytes are text
		b, err = p.sized(map[byte]uint64{'X': 4, 0x8c: 1, 0x8d: 8, 'T': 4, 'U': 1}[op])
		p.push(string(b))
	case 'B', 'C', 0x8e, 0x96:
		b, err = p.sized(map[byte]uint64{'B': 4, 'C': 1, 0x8e: 8, 0x96: 8}[op])
		p.push(b)
	case 'c':
		var module, name string
		if module, err = p.line(); err == nil {
			name, err = p.line()
		}
		p.push(global(module + " " + name))
	default:
		return false, nil
	}
	return true, err
}

// signed is an integer of at most eight bytes.
func signed(b []byte) int64 {
	x := uint64(0)
	for i, c := range b {
		x |= uint64(c) << (8 * i)
	}
	if n := len(b); n > 0 && n < 8 && b[n-1] >= 0x80 {
		x -= 1 << (8 * n)
	}
	return int64(x)
}

// operation does what works on the stack.
func (p *pickle) operation(op byte) error {
	switch op {
	case 'q', 'r', 'h', 'j':
		n, err := p.number(map[byte]uint64{'q': 1, 'h': 1, 'r': 4, 'j': 4}[op])
		switch {
		case err != nil:
			return err
		case op == 'q' || op == 'r':
			return p.remember(n)
		default:
			return p.recall(n)
		}
	case 0x94:
		return p.remember(uint64(len(p.memo)))
	case 't', 'u', 'e', 0x90, 0x91:
		list, err := p.marked()
		switch {
		case err != nil:
			return err
		case op == 'u':
			return p.set(list)
		case op == 'e' || op == 0x90:
			return p.add(list)
		case op == 0x91:
			p.push(&List{list})
		default:
			p.push(list)
		}
	case 'a':
		item, err := p.last(1)
		if err != nil {
			return err
		}
		return p.add(item)
	case '0':
		_, err := p.pop()
		return err
	case '1':
		_, err := p.marked()
		return err
	case 0x85, 0x86, 0x87:
		list, err := p.last(int(op) - 0x84)
		if err != nil {
			return err
		}
		p.push(list)
	case 's':
		pair, err := p.last(2)
		if err != nil {
			return err
		}
		return p.set(pair)
	case 'R', 0x81:
		return p.call(false)
	case 0x92:
		return p.call(true)
	case 'b':
		return p.build()
	case 'Q':
		id, err := p.pop()
		tuple, ok := id.([]any)
		if err != nil || !ok {
			return errPickle
		}
		p.push(persistent(tuple))
	case 0x93:
		pair, err := p.last(2)
		if err != nil {
			return err
		}
		module, ok := pair[0].(string)
		name, named := pair[1].(string)
		if !ok || !named {
			return errPickle
		}
		p.push(global(module + " " + name))
	default:
		return fmt.Errorf("%w: instruction %#x", errPickle, op)
	}
	return nil
}
