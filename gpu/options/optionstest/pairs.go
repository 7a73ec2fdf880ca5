// Package optionstest tries every pair of a task's options on a small store: a pair works, or is refused with the
// reason. There is no third case. It is for tests alone.
package optionstest

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

var everyValue = flag.Bool("pairs", false, "train every pair of options with every pair of values, instead of one")

// Pairs is a task whose options are tried.
type Pairs[C any] struct {
	Table *options.Table[C]
	// Values to try, of each of the table's options by its flag. An option without any is not tried.
	Values map[string][]any
	// Decides are options that decide what is learned: one that changes nothing beside another was ignored. Options
	// that bear on what is drawn change nothing where nothing is, and so on: only what always counts is here.
	Decides []string
	// Small is set where the options leave it open, so that a run is short.
	Small C
	// SmallBut are options beside which Small is not set.
	SmallBut []string
	// Normalize fills in what is left open and refuses what does not go together.
	Normalize func(*C) error
	// Train trains and returns what was learned, which two runs have alike only if they did the same.
	Train func(t *testing.T, c C) (learned string, err error)
}

// pairing is a configuration with one or two options set.
type pairing[C any] struct {
	config C
	set    []string
}

// with sets an option.
func (x *Pairs[C]) with(p pairing[C], name string, value any) pairing[C] {
	p.set = append(slices.Clone(p.set), name)
	for _, f := range x.Table.Bind(&p.config).Fields {
		if f.Flag != name {
			continue
		}
		if f.Value.Kind() == reflect.Pointer {
			f.Value.Set(reflect.New(f.Value.Type().Elem()))
			f.Value.Elem().Set(reflect.ValueOf(value))
		} else {
			f.Value.Set(reflect.ValueOf(value))
		}
		given := reflect.ValueOf(&p.config).Elem().FieldByName("Given")
		given.Set(reflect.ValueOf(append(slices.Clone(given.Interface().([]string)), f.Name)))
	}
	return p
}

// refusals are what the error of a run that is refused by the store, the plan or the budget matches.
var refusals = []error{store.ErrInvalid, store.ErrNotFound, store.ErrBudget, macro.ErrPlan}

// outcome is what came of a run.
type outcome struct {
	trained bool
	text    string // what was learned, or the refusal
}

// names are the flags of the table's options, each of which Values has.
func (x *Pairs[C]) names(t *testing.T) (names []string) {
	for _, f := range x.Table.Bind(new(C)).Fields {
		if _, ok := x.Values[f.Flag]; !ok {
			t.Errorf("no value of %s is tried", f.Flag)
		}
		names = append(names, f.Flag)
	}
	if len(names) != len(x.Values) {
		t.Errorf("%d options, values for %d", len(names), len(x.Values))
	}
	return names
}

// Run tries every pair of options, and fails the test where one neither trains nor is refused with the reason, or is
// ignored.
func (x *Pairs[C]) Run(t *testing.T) {
	names := x.names(t)
	known := map[string]outcome{} // by what was set
	run := func(p pairing[C]) outcome {
		key := fmt.Sprintf("%+v", p.config)
		if _, ok := known[key]; !ok {
			known[key] = x.run(t, p)
		}
		return known[key]
	}
	n := 0
	for i, a := range names {
		for _, b := range names[i+1:] {
			if n++; n%race.Every(12) == 0 { // what races in one pair does in many
				x.pair(t, run, a, b)
			}
		}
	}
	report(t, known)
}

// pair tries the values of two options: all that are refused before a run, and one or all that train.
func (x *Pairs[C]) pair(t *testing.T, run func(pairing[C]) outcome, a, b string) {
	trained := false
	for _, va := range x.Values[a] {
		for _, vb := range x.Values[b] {
			first, second := x.with(pairing[C]{}, a, va), x.with(pairing[C]{}, b, vb)
			both := x.with(first, b, vb)
			if check := both.config; trained && !*everyValue && x.Normalize(&check) == nil {
				continue
			}
			got := run(both)
			if !got.trained {
				continue
			}
			trained = true
			if slices.Contains(x.Decides, a) && !x.same(second, both) && run(second) == got {
				t.Errorf("%v and %v of %s and %s: %s is ignored", va, vb, a, b, a)
			}
			if slices.Contains(x.Decides, b) && !x.same(first, both) && run(first) == got {
				t.Errorf("%v and %v of %s and %s: %s is ignored", va, vb, a, b, b)
			}
		}
	}
}

// same reports whether two pairings are one configuration in full: what an option set was the default.
func (x *Pairs[C]) same(a, b pairing[C]) bool {
	for _, c := range []*C{&a.config, &b.config} {
		reflect.ValueOf(c).Elem().FieldByName("Given").SetZero()
		if x.Normalize(c) != nil {
			return false
		}
	}
	return reflect.DeepEqual(a.config, b.config)
}

// run trains, small where the options leave it open, and says what came of it.
func (x *Pairs[C]) run(t *testing.T, p pairing[C]) outcome {
	c := p.config
	v, small := reflect.ValueOf(&c).Elem(), reflect.ValueOf(x.Small)
	big := slices.ContainsFunc(p.set, func(name string) bool { return slices.Contains(x.SmallBut, name) })
	for _, f := range reflect.VisibleFields(v.Type()) {
		if to := v.FieldByIndex(f.Index); !f.Anonymous && to.CanSet() && to.IsZero() && !big {
			to.Set(small.FieldByIndex(f.Index))
		}
	}
	learned, err := x.Train(t, c)
	var refusal *options.Refusal
	switch {
	case err == nil:
		return outcome{true, learned}
	case errors.As(err, &refusal):
	case strings.Contains(err.Error(), "shape"):
		t.Errorf("%v: %v", p.set, err)
	case !slices.ContainsFunc(refusals, func(kind error) bool { return errors.Is(err, kind) }):
		t.Errorf("%v: %v, expected a refusal", p.set, err)
	}
	return outcome{false, err.Error()}
}

// report logs how many combinations there were, and with -v each reason for a refusal.
func report(t *testing.T, known map[string]outcome) {
	trained := 0
	reasons := map[string]bool{}
	for _, o := range known {
		if o.trained {
			trained++
		} else {
			reasons[o.text] = true
		}
	}
	t.Logf("%d combinations trained, %d were refused", trained, len(known)-trained)
	if testing.Verbose() {
		for _, text := range slices.Sorted(maps.Keys(reasons)) {
			t.Log(text)
		}
	}
}
