package options

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gstore/gstore/store"
)

// Complete fills in the defaults of fields that were not set, in the table's order.
func (t *Table[C]) Complete(c *C) {
	for i := range t.Options {
		o := &t.Options[i]
		if f := o.field(c); unset(f) {
			f.Set(o.standard(c, f.Type()))
		}
	}
}

// Inherit sets c's options of some groups to those of from, but for what the caller gave: c's field Given names it.
func (t *Table[C]) Inherit(c, from *C, groups ...string) {
	names := given(c)
	for i := range t.Options {
		o := &t.Options[i]
		if slices.Contains(groups, o.Group) && !slices.Contains(names, o.name()) {
			o.field(c).Set(o.field(from))
		}
	}
}

// Check returns a [Refusal] of the first option that is not what it may be, or does not go with another; nil if there
// is none. c's defaults must be filled in.
func (t *Table[C]) Check(c *C) error {
	for i := range t.Options {
		if err := t.Options[i].check(c); err != nil {
			return err
		}
	}
	given := given(c)
	for i := range t.Options {
		o := &t.Options[i]
		for j := range o.Rules {
			r := &o.Rules[j]
			if (r.Needs.Store == nil && r.Excludes.Store == nil) && (!r.Idle || slices.Contains(given, o.name())) {
				if err := o.judge(r, c, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// CheckStore returns a [Refusal] of the first option that needs what the store does not have, or excludes what it
// has.
func (t *Table[C]) CheckStore(c *C, m *store.Manifest) error {
	for i := range t.Options {
		o := &t.Options[i]
		for j := range o.Rules {
			if r := &o.Rules[j]; r.Needs.Store != nil || r.Excludes.Store != nil {
				if err := o.judge(r, c, m); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// check looks at the option's value alone.
func (o *Option[C]) check(c *C) error {
	f := o.field(c)
	if !unset(f) || o.Default != nil {
		if x, bad := o.Values.wrong(f); bad {
			text := fmt.Sprintf("%s: expected %s", o.spell(Show(x)), o.Values.text)
			if near := Nearest(Show(x), o.Values.words); near != "" {
				text = fmt.Sprintf("%s is not known: did you mean %s? Expected %s", o.spell(Show(x)), near, o.Values.text)
			}
			return &Refusal{Text: text}
		}
	}
	if o.Check != nil {
		if text := o.Check(c); text != "" {
			return &Refusal{Text: text}
		}
	}
	return nil
}

// judge looks at one rule; m is nil for those that do not ask the store.
func (o *Option[C]) judge(r *Rule[C], c *C, m *store.Manifest) error {
	applies := o.isSet(c)
	if r.When.set() {
		applies = r.When.Holds(c)
	}
	if !applies {
		return nil
	}
	subject := r.When.Text
	if subject == "" {
		subject = o.spell(Show(o.field(c)))
	}
	switch {
	case r.Needs.set() && !r.Needs.holds(c, m):
		text := subject + " needs " + r.Needs.Text + r.Needs.found(c) + tail(r.Why, r.Needs.Fix)
		return &Refusal{Text: text, is: r.Needs.Is}
	case r.Excludes.set() && r.Excludes.holds(c, m):
		text := subject + " does not go with " + r.Excludes.Text + tail(r.Why, "Use one of them")
		return &Refusal{Text: text, is: r.Excludes.Is}
	}
	return nil
}

func (x *Condition[C]) holds(c *C, m *store.Manifest) bool {
	if x.Store != nil {
		return x.Store(c, m)
	}
	return x.Holds(c)
}

func (x *Condition[C]) found(c *C) string {
	if x.Found == nil {
		return ""
	}
	return ", but found " + x.Found(c)
}

// tail is the reason and the remedy behind a refusal; each may be "".
func tail(why, fix string) string {
	if why != "" {
		why = ": " + why
	}
	if fix != "" {
		fix = ". " + fix
	}
	return why + fix
}

// field is the option's field of c.
func (o *Option[C]) field(c *C) reflect.Value { return reflect.ValueOf(o.Field(c)).Elem() }

// standard is the option's default of a field of type t.
func (o *Option[C]) standard(c *C, t reflect.Type) reflect.Value {
	d := o.Default
	if f, ok := d.(func(*C) any); ok {
		d = f(c)
	}
	if d == nil {
		return reflect.Zero(t)
	}
	v := reflect.ValueOf(d)
	if t.Kind() == reflect.Pointer && v.Kind() != reflect.Pointer {
		p := reflect.New(t.Elem())
		p.Elem().Set(v.Convert(t.Elem()))
		return p
	}
	return v.Convert(t)
}

// unset reports whether a field says nothing: it is zero, or a list of nothing.
func unset(f reflect.Value) bool { return f.IsZero() || f.Kind() == reflect.Slice && f.Len() == 0 }

// isSet reports whether the option has another value than its default.
func (o *Option[C]) isSet(c *C) bool {
	f := o.field(c)
	return !unset(f) && !reflect.DeepEqual(f.Interface(), o.standard(c, f.Type()).Interface())
}

// structField is the field of C, found by its address.
func (o *Option[C]) structField() reflect.StructField {
	c := new(C)
	at := reflect.ValueOf(o.Field(c)).Pointer() - reflect.ValueOf(c).Pointer()
	f, ok := fieldsOf(reflect.TypeFor[C]())[at]
	if !ok {
		panic("options: an option's field is none of its configuration") // a programming error
	}
	return f
}

// known are the fields of the configurations that were asked for, by their types: every command asks for all of them.
var known sync.Map

// fieldsOf are the fields that a configuration of type t may store, those of the structs that it embeds too, by their
// offsets in bytes.
func fieldsOf(t reflect.Type) map[uintptr]reflect.StructField {
	if fields, ok := known.Load(t); ok {
		return fields.(map[uintptr]reflect.StructField)
	}
	fields := map[uintptr]reflect.StructField{}
	v := reflect.New(t).Elem()
	for _, f := range reflect.VisibleFields(t) {
		if f.IsExported() && !f.Anonymous && f.Type.Size() > 0 {
			fields[v.FieldByIndex(f.Index).Addr().Pointer()-v.Addr().Pointer()] = f
		}
	}
	known.Store(t, fields)
	return fields
}

// name is the field's JSON name, "-" for one that is not stored.
func (o *Option[C]) name() string {
	name, _, _ := strings.Cut(o.structField().Tag.Get("json"), ",")
	return name
}

// flagName is the option's flag without dashes before it.
func (o *Option[C]) flagName() string {
	if o.Flag != "" {
		return o.Flag
	}
	return strings.ReplaceAll(o.name(), "_", "-")
}

// spell is the option with a value as on a command line.
func (o *Option[C]) spell(value string) string {
	return Spell(o.flagName(), value, o.Level == Experimental || slices.Contains(o.Unproven, value))
}

// Spell writes an option with a value as on a command line; true, of an option without a value, is left out.
func Spell(flag, value string, experimental bool) string {
	switch {
	case experimental && value == "true":
		return "--x " + flag
	case experimental:
		return "--x " + flag + "=" + value
	case value == "true":
		return "--" + flag
	case value == "false":
		return "--" + flag + "=false"
	}
	return "--" + flag + " " + value
}

// given are the names of the fields that the caller set, c's field Given, if it has one.
func given(c any) (names []string) {
	if g := reflect.ValueOf(c).Elem().FieldByName("Given"); g.IsValid() {
		names, _ = g.Interface().([]string)
	}
	return names
}
