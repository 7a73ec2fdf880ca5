package options

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Values is what an option may be. The zero value allows what its type does.
type Values struct {
	words []string
	text  string // what is expected: "1 or more"
	holds func(reflect.Value) bool
}

// Words allows only these.
func Words(words ...string) Values {
	is := func(v reflect.Value) bool { return slices.Contains(words, v.String()) }
	return Values{words: words, text: OneOf(words), holds: is}
}

// As says in other words what is expected.
func (v Values) As(text string) Values {
	v.text = text
	return v
}

// OrNone allows what v does, and the empty word, which is a choice of its own.
func (v Values) OrNone() Values {
	holds := v.holds
	v.holds = func(x reflect.Value) bool { return x.IsZero() || holds(x) }
	return v
}

// Text allows words for which is holds; expected says what they are.
func Text(expected string, is func(string) bool) Values {
	return Values{text: expected, holds: func(v reflect.Value) bool { return is(v.String()) }}
}

// AtLeast allows numbers from low on.
func AtLeast(low float64) Values {
	return numbers(format(low)+" or more", func(x float64) bool { return x >= low })
}

// AtMost allows numbers from low to high.
func AtMost(low, high float64) Values {
	return numbers(format(low)+" to "+format(high), func(x float64) bool { return x >= low && x <= high })
}

// Below allows numbers from low to high, but not high itself.
func Below(low, high float64) Values {
	text := format(low) + " or more, and less than " + format(high)
	return numbers(text, func(x float64) bool { return x >= low && x < high })
}

// Positive allows numbers above 0 that a float32 holds.
func Positive() Values {
	return numbers("more than 0, and finite", func(x float64) bool { return x > 0 && x <= math.MaxFloat32 })
}

// Or allows a number beside what v does; text says what it means.
func (v Values) Or(number float64, text string) Values {
	holds := v.holds
	return numbers(v.text+", or "+format(number)+" for "+text, func(x float64) bool {
		return x == number || holds(reflect.ValueOf(x))
	})
}

func numbers(text string, is func(float64) bool) Values {
	return Values{text: text, holds: func(v reflect.Value) bool {
		switch {
		case v.CanInt():
			return is(float64(v.Int()))
		case v.CanUint():
			return is(float64(v.Uint()))
		}
		return is(v.Float())
	}}
}

// wrong returns the first value of v, a field, that is not allowed, and whether there is one.
func (v *Values) wrong(field reflect.Value) (reflect.Value, bool) {
	switch {
	case v.holds == nil:
		return field, false
	case field.Kind() == reflect.Pointer:
		if field.IsNil() {
			return field, false
		}
		return v.wrong(field.Elem())
	case field.Kind() == reflect.Slice:
		for i := range field.Len() {
			if x, bad := v.wrong(field.Index(i)); bad {
				return x, true
			}
		}
		return field, false
	}
	return field, !v.holds(field)
}

// OneOf writes "a, b or c".
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// format writes a number as the pages do: .5 for 0.5.
func format(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatInt(int64(x), 10)
	}
	text := strconv.FormatFloat(x, 'g', -1, 64)
	if strings.HasPrefix(text, "0.") {
		text = text[1:]
	}
	return text
}

// Show writes the value of a field as on a command line; "" for none.
func Show(v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Slice:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",")
	case reflect.Float64:
		return format(v.Float())
	}
	return fmt.Sprint(v)
}

// Count writes "1 layer", "2 layers".
func Count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
