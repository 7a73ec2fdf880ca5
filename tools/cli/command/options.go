package command

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/options"
)

// Options are flags that follow from tables of options ([options.Table]): one value is set in the configurations of
// all tasks that have an option of that flag. An option of level [options.Experimental] is no flag, but a name of --x
// (x.go).
//
// A flag that is not given leaves its fields zero, which means the default. One that has a number as its default
// refuses 0, unless the table says what 0 is kept as; a field that is a pointer takes 0 as it is.
type Options struct {
	flags   *pflag.FlagSet
	options []*option
	tasks   []string
}

// option is one flag, or a name of --x: the fields of the tasks that have it.
type option struct {
	name, kept string // kept: the field's JSON name
	x          bool   // given by --x alone
	zero       string
	number     bool // the default is a number other than 0
	unproven   []string
	words      map[string][]string      // what it may be, by task
	fields     map[string]reflect.Value // by task
	defaults   []string
	given      bool
	auto       bool // the word auto was given for a number: the default
}

// Bind makes the flags of tasks in fs, and --x. A flag that fs has already is the command's own and stays as it is.
func Bind(fs *pflag.FlagSet, tasks ...options.Bound) *Options {
	o := &Options{flags: fs}
	for _, t := range tasks {
		o.tasks = append(o.tasks, t.Task)
		for i := range t.Fields {
			o.add(t.Task, &t.Fields[i])
		}
	}
	for _, p := range o.options {
		flag := fs.Lookup(p.name)
		if p.Type() == "" {
			flag.NoOptDefVal = "true"
		}
		if len(p.defaults) > 0 {
			flag.Usage += " (default " + strings.Join(p.defaults, "; ") + ")"
		}
		var words []string
		for _, t := range o.tasks {
			for _, w := range p.words[t] {
				if !slices.Contains(words, w) && !slices.Contains(p.unproven, w) {
					words = append(words, w)
				}
			}
		}
		Values(flag, words...)
	}
	o.addX()
	return o
}

// add makes the flag of a task's field, or adds the field to what another task's made.
func (o *Options) add(task string, f *options.Field) {
	p := o.find(f.Flag)
	if p == nil {
		if o.flags.Lookup(f.Flag) != nil {
			return
		}
		p = &option{name: f.Flag, kept: f.Name, zero: f.Zero, x: f.Level == options.Experimental,
			words: map[string][]string{}, fields: map[string]reflect.Value{}}
		o.options = append(o.options, p)
		var value pflag.Value = p
		if p.x {
			value = moved{p}
		}
		flag := o.flags.VarPF(value, f.Flag, "", f.Help)
		flag.DefValue, flag.Hidden = "", p.x
		group := f.Group
		if f.Level == options.Expert {
			group += ",expert"
		}
		Group(flag, group)
	}
	p.fields[task], p.words[task] = f.Value, f.Words
	p.unproven = append(p.unproven, f.Unproven...)
	if f.Number {
		p.number = true
	}
	if text := f.Default; text != "" && !slices.Contains(p.defaults, text) {
		if len(p.defaults) > 0 {
			text = task + ": " + text
		}
		p.defaults = append(p.defaults, text)
	}
	if flag := o.flags.Lookup(f.Flag); flag.Usage == "" { // the first task that says what it is
		flag.Usage = f.Help
	}
}

// find returns the option of a name; nil if there is none.
func (o *Options) find(name string) *option {
	for _, p := range o.options {
		if p.name == name {
			return p
		}
	}
	return nil
}

// String implements pflag.Value.
func (p *option) String() string {
	for _, f := range p.fields {
		return options.Show(f)
	}
	return ""
}

// Type implements pflag.Value; "" is a flag without a value.
func (p *option) Type() string {
	for _, f := range p.fields {
		switch t := f.Type(); {
		case t == reflect.TypeFor[bool]() || t == reflect.TypeFor[*bool]():
			return ""
		case strings.HasSuffix(p.kept, "_bytes"):
			return "size"
		default:
			if t.Kind() == reflect.Pointer {
				t = t.Elem()
			}
			return map[reflect.Kind]string{reflect.Int: "n", reflect.Int64: "n", reflect.Uint64: "n", reflect.Float64: "x",
				reflect.Slice: "list", reflect.String: "text"}[t.Kind()]
		}
	}
	return "text"
}

// Set implements pflag.Value: it sets the fields of all tasks. A list that is given again goes on. A value that only
// --x takes is refused.
func (p *option) Set(text string) error {
	if slices.Contains(p.unproven, text) {
		return movedError{options.Spell(p.name, text, true)}
	}
	return p.take(text)
}

// take is Set, by whatever way the value came.
func (p *option) take(text string) error {
	for _, f := range p.fields {
		if err := p.set(f, text); err != nil {
			return err
		}
	}
	p.given = true
	return nil
}

func (p *option) set(f reflect.Value, text string) error {
	if f.Kind() == reflect.Pointer {
		v := reflect.New(f.Type().Elem())
		if err := p.set(v.Elem(), text); err != nil {
			return err
		}
		f.Set(v)
		return nil
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("expected true or false")
		}
		f.SetBool(b)
	case reflect.Int, reflect.Int64:
		if p.Type() == "size" {
			n, err := ParseSize(text)
			f.SetInt(n)
			return err
		}
		if p.auto = text == "auto"; p.auto {
			f.SetInt(0)
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("expected a whole number")
		}
		f.SetInt(n)
	case reflect.Uint64:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return fmt.Errorf("expected a whole number, 0 or more")
		}
		f.SetUint(n)
	case reflect.Float64:
		if text == "0" && p.zero != "" {
			text = p.zero
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("expected a number")
		}
		f.SetFloat(x)
	case reflect.Slice:
		if !p.given {
			f.SetZero()
		}
		for item := range strings.SplitSeq(text, ",") {
			v := reflect.New(f.Type().Elem()).Elem()
			if err := p.set(v, strings.TrimSpace(item)); err != nil {
				return err
			}
			f.Set(reflect.Append(f, v))
		}
	default:
		panic("command: no flag of a " + f.Type().String()) // a programming error
	}
	return nil
}

// Given names the fields, by their JSON names, whose flags were given: what --resume compares though it be zero.
func (o *Options) Given() (names []string) {
	if o == nil {
		return nil
	}
	for _, p := range o.options {
		if p.given && p.kept != "-" {
			names = append(names, p.kept)
		}
	}
	return names
}

// Has reports whether the flag, or the name of --x, was given.
func (o *Options) Has(name string) bool {
	if o == nil {
		return false
	}
	if p := o.find(name); p != nil {
		return p.given
	}
	return o.flags.Changed(name)
}

// Check refuses, as a usage error, options that mean nothing for the store's task, and values that are another
// task's.
func (o *Options) Check(task string) error {
	if o == nil {
		return nil
	}
	for _, p := range o.options {
		if !p.given {
			continue
		}
		field, ok := p.fields[task]
		for _, other := range o.tasks {
			switch _, theirs := p.fields[other]; {
			case !ok && theirs:
				return Usagef("%s is for %s; the store's task is %s", p.spell(""), other, task)
			case ok && field.Kind() == reflect.String && !slices.Contains(p.words[task], field.String()) &&
				slices.Contains(p.words[other], field.String()):
				return Usagef("%s is for %s; the store's task is %s: use %s", p.spell(field.String()), other, task,
					strings.Join(p.words[task], ", "))
			}
		}
	}
	return nil
}

// Validate refuses 0 where it would stand for another default, and what is nearly a word that some task knows.
func (o *Options) Validate() error {
	for _, p := range o.options {
		if !p.given {
			continue
		}
		var words []string
		for _, t := range o.tasks {
			words = append(words, p.words[t]...)
		}
		for _, f := range p.fields {
			if p.number && !p.auto && f.IsZero() && f.Kind() != reflect.Slice && f.Kind() != reflect.String {
				return Usagef("%s: expected more; leave it out for its default", p.spell("0"))
			}
			if f.Kind() == reflect.String && len(words) > 0 && !slices.Contains(words, f.String()) {
				if near := options.Nearest(f.String(), words); near != "" {
					return Usagef("%s is not known: did you mean %s?", p.spell(f.String()), near)
				}
			}
		}
	}
	return nil
}

// spell is the option as on a command line, with a value or, where that is empty, without.
func (p *option) spell(value string) string {
	if value == "" {
		value = "true" // which is not written
	}
	return options.Spell(p.name, value, p.x)
}
