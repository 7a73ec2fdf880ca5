package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/options"
)

// xUsage heads the list of what --x takes; its argument is the command.
const xUsage = `What gstore %s takes as --x NAME=VALUE, as often as need be: published methods and switches that
were measured and gain nothing by default, or whose best value the run finds itself. In a --config file:
x: {NAME: VALUE}. What the measurements say: docs/reference/experimental.md.
`

// xValue is --x.
type xValue struct{ o *Options }

// String implements pflag.Value.
func (x xValue) String() string { return "" }

// Type implements pflag.Value.
func (x xValue) Type() string { return "name=value" }

// Set implements pflag.Value.
func (x xValue) Set(text string) error {
	name, value, valued := strings.Cut(text, "=")
	p := x.o.find(strings.ReplaceAll(name, "_", "-"))
	switch {
	case p == nil:
		if near := options.Nearest(name, x.o.xNames()); near != "" {
			return fmt.Errorf("no option is called %s: did you mean %s? %s lists them", name, near, HelpX)
		}
		return fmt.Errorf("no option is called %s: %s lists them", name, HelpX)
	case !valued && p.Type() != "":
		return fmt.Errorf("expected a value, %s=…", name)
	case !valued:
		value = "true"
	}
	if !p.x && !slices.Contains(p.unproven, value) {
		return movedError{options.Spell(p.name, value, false)}
	}
	return p.take(value)
}

// addX adds --x to flags some of whose options only it takes.
func (o *Options) addX() {
	for _, p := range o.options {
		if f := o.flags.Lookup(p.name); p.x || len(p.unproven) > 0 {
			f.Annotations[xKey] = p.unproven
		}
	}
	names := o.xNames()
	if len(names) == 0 || o.flags.Lookup("x") != nil {
		return
	}
	f := o.flags.VarPF(xValue{o}, "x", "", "set an option for experiments, as often as need be: "+HelpX+" lists them")
	f.DefValue = ""
	for i, name := range names {
		names[i] = name + "="
	}
	Values(f, names...)
}

// xNames lists what --x takes.
func (o *Options) xNames() (names []string) {
	for _, p := range o.options {
		if p.x || len(p.unproven) > 0 {
			names = append(names, p.name)
		}
	}
	return names
}

// moved is an option that was a flag and is a name of --x: the flag is hidden, and refused with what to say.
type moved struct{ *option }

// Set implements pflag.Value.
func (m moved) Set(text string) error { return movedError{options.Spell(m.name, text, true)} }

// movedError is the error of an option that is spelled as it was, or as it never was.
type movedError struct{ spelled string }

func (m movedError) Error() string { return "say " + m.spelled }

// nameOfX is a flag as --help-x lists it: a hidden one as it is, another with the values that only --x takes.
func nameOfX(f *pflag.Flag) *pflag.Flag {
	p, ok := f.Value.(*option)
	if !ok {
		return f
	}
	listed := *f
	listed.Value, listed.Annotations = moved{p}, map[string][]string{}
	listed.Usage = strings.Join(p.unproven, " or ") + ": " + f.Usage
	return &listed
}
