package command

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Options are flags that follow from structs of options. A field with a tag group is a flag, whose
//
//   - name, and key in a --config file, is the field's JSON name with dashes, or the tag flag;
//   - group in the help is the tag group, with ",expert" after it if only --help-all shows it;
//   - help is the tag help, and its values are those of the tag values, by commas;
//   - default is what the struct's own defaults fill in, or the tag default where the data decides;
//   - tasks are those of the structs that have a field of that name: one value is set in all of them.
//
// A flag that is not given leaves its fields zero, which means the default. One that has a number as its default refuses 0,
// unless the tag zero says what 0 is kept as; a field that is a pointer takes 0 as it is.
type Options struct {
	flags   *pflag.FlagSet
	options []*option
	tasks   []string
}

// Task is a struct of options, for one task.
type Task struct {
	Name     string // as messages name it
	Options  any    // pointer to the struct that flags fill
	Defaults any    // a struct of the same type with its defaults filled in
}

// option is one flag: the fields of the tasks that have it.
type option struct {
	name, kept string // kept: the field's JSON name
	zero       string
	number     bool // the default is a number other than 0
	values     []string
	fields     map[string]reflect.Value // by task
	given      bool
	auto       bool // the word auto was given for a number: the default
}

// Bind makes the flags of tasks in fs. A flag that fs has already is the command's own and stays as it is.
func Bind(fs *pflag.FlagSet, tasks ...Task) *Options {
	o := &Options{flags: fs}
	byName := map[string]*option{}
	defaults := map[string][]string{}
	for _, t := range tasks {
		o.tasks = append(o.tasks, t.Name)
		v, d := reflect.ValueOf(t.Options).Elem(), reflect.ValueOf(t.Defaults)
		for i := range v.NumField() {
			f := v.Type().Field(i)
			group, ok := f.Tag.Lookup("group")
			if !ok {
				continue
			}
			kept, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			name := f.Tag.Get("flag")
			if name == "" {
				name = strings.ReplaceAll(kept, "_", "-")
			}
			p := byName[name]
			if p == nil {
				if fs.Lookup(name) != nil {
					continue
				}
				p = &option{name: name, kept: kept, zero: f.Tag.Get("zero"), fields: map[string]reflect.Value{}}
				if values := f.Tag.Get("values"); values != "" {
					p.values = strings.Split(values, ",")
				}
				byName[name] = p
				o.options = append(o.options, p)
				flag := fs.VarPF(p, name, "", f.Tag.Get("help"))
				flag.DefValue = ""
				Group(flag, group)
			}
			p.fields[t.Name] = v.Field(i)
			text, ok := f.Tag.Lookup("default")
			if !ok {
				text = fieldText(d.Field(i))
			}
			if _, err := strconv.ParseFloat(text, 64); err == nil && f.Type.Kind() != reflect.Pointer {
				p.number = true
			}
			if text != "" && !slices.Contains(defaults[name], text) {
				if len(defaults[name]) > 0 {
					text = t.Name + ": " + text
				}
				defaults[name] = append(defaults[name], text)
			}
		}
	}
	for _, p := range o.options {
		flag := fs.Lookup(p.name)
		if p.Type() == "" {
			flag.NoOptDefVal = "true"
		}
		if d := defaults[p.name]; len(d) > 0 {
			flag.Usage += " (default " + strings.Join(d, "; ") + ")"
		}
		Values(flag, p.values...)
	}
	return o
}

// fieldText is a default as help shows it; "" for none.
func fieldText(v reflect.Value) string {
	if v.IsZero() {
		return ""
	}
	v = reflect.Indirect(v)
	switch v.Kind() {
	case reflect.Slice:
		return strings.ReplaceAll(strings.Trim(fmt.Sprint(v), "[]"), " ", ",")
	case reflect.Float64:
		return strings.TrimPrefix(strconv.FormatFloat(v.Float(), 'g', -1, 64), "0")
	}
	return fmt.Sprint(v)
}

// SetValues says what a flag may be, where code knows it and a tag would repeat it.
func (o *Options) SetValues(name string, values ...string) {
	for _, p := range o.options {
		if p.name == name {
			p.values = values
			Values(o.flags.Lookup(name), values...)
		}
	}
}

// String implements pflag.Value.
func (p *option) String() string {
	for _, f := range p.fields {
		return fieldText(f)
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
			return map[reflect.Kind]string{reflect.Int: "n", reflect.Int64: "n", reflect.Uint64: "n", reflect.Float64: "x", reflect.Pointer: "x",
				reflect.Slice: "list", reflect.String: "text"}[t.Kind()]
		}
	}
	return "text"
}

// Set implements pflag.Value: it sets the fields of all tasks. A list that is given again goes on.
func (p *option) Set(text string) error {
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

// Has reports whether the flag was given.
func (o *Options) Has(name string) bool { return o != nil && o.flags.Changed(name) }

// Check refuses, as a usage error, flags that mean nothing for the store's task, 0 where it would stand for another default,
// and what is nearly the name of a value.
func (o *Options) Check(task string) error {
	if o == nil {
		return nil
	}
	for _, p := range o.options {
		if !p.given {
			continue
		}
		if _, ok := p.fields[task]; !ok {
			for _, other := range o.tasks {
				if _, ok := p.fields[other]; ok {
					return Usagef("--%s is for %s; the store's task is %s", p.name, other, task)
				}
			}
		}
	}
	return nil
}

// Validate refuses what is wrong with flags whatever the task: see [Options.Check].
func (o *Options) Validate() error {
	for _, p := range o.options {
		if !p.given {
			continue
		}
		for _, f := range p.fields {
			if p.number && !p.auto && f.IsZero() && f.Kind() != reflect.Slice && f.Kind() != reflect.String {
				return Usagef("--%s 0: expected more; leave the flag out for its default", p.name)
			}
			if f.Kind() == reflect.String && len(p.values) > 0 && !slices.Contains(p.values, f.String()) {
				if near := Nearest(f.String(), p.values); near != "" {
					return Usagef("--%s %s is not known: did you mean %s?", p.name, f.String(), near)
				}
			}
		}
	}
	return nil
}
