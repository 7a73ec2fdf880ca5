package options

import "reflect"

// Bound is a task's options, of one configuration: what a command line makes flags of.
type Bound struct {
	Task   string
	Fields []Field
}

// Field is an option of a configuration.
type Field struct {
	Name, Flag  string // its JSON name ("-" where it is not stored), and its flag without dashes
	Group, Help string
	Level       Level
	Default     string // in words; "" for none
	Zero        string
	Words       []string // what it may be, where that is a list
	Unproven    []string // those of them that only --x takes
	Expected    string   // what it may be, in words; "" for all that its type can
	Number      bool     // its default is a number other than 0
	ResumeFree  bool     // a run that is resumed may have another value than before
	Rules       []RuleText
	Value       reflect.Value // of the configuration
}

// RuleText is a rule in words; one of Needs and Excludes is "".
type RuleText struct{ When, Needs, Excludes, Why string }

// Bind returns the options of c.
func (t *Table[C]) Bind(c *C) Bound {
	b := Bound{Task: t.Task}
	whole := new(C)
	t.Complete(whole)
	for i := range t.Options {
		o := &t.Options[i]
		f := Field{Name: o.name(), Flag: o.flagName(), Group: o.Group, Help: o.Help, Level: o.Level,
			Default: o.Otherwise, Zero: o.Zero,
			Words: o.Values.words, Unproven: o.Unproven, Expected: o.Values.text, Value: o.field(c),
			ResumeFree: o.structField().Tag.Get("resume") == "free"}
		standard := o.field(whole)
		if f.Default == "" && !standard.IsZero() {
			f.Default = Show(standard)
		}
		f.Number = o.Default != nil && (standard.CanInt() || standard.CanFloat() || standard.CanUint())
		for j := range o.Rules {
			r := &o.Rules[j]
			f.Rules = append(f.Rules, RuleText{When: r.When.Text, Needs: r.Needs.Text, Excludes: r.Excludes.Text, Why: r.Why})
		}
		b.Fields = append(b.Fields, f)
	}
	return b
}
