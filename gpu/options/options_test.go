package options_test

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/options"
)

// config is what a task of a test can be told.
type config struct {
	Model   string   `json:"model"`
	Layers  int      `json:"layers"`
	Rate    *float64 `json:"rate"`
	Fanouts []int    `json:"fanouts"`
	Keeps   bool     `json:"keeps_states"`
	Width   int      `json:"width"`
	Given   []string `json:"-"`
}

func table() *options.Table[config] {
	deep := options.Condition[config]{Text: "a model of 2 layers or more", Holds: func(c *config) bool { return c.Layers > 1 },
		Found: func(c *config) string { return options.Count(c.Layers, "layer") }, Fix: "Use --layers 2 or more"}
	wide := options.Condition[config]{Text: "--x width", Holds: func(c *config) bool { return c.Width > 0 }}
	return &options.Table[config]{Task: "test", Options: []options.Option[config]{
		{Field: func(c *config) any { return &c.Model }, Default: "sage", Values: options.Words("sage", "gcn")},
		{Field: func(c *config) any { return &c.Layers }, Default: func(c *config) any { return len(c.Fanouts) + 1 },
			Values: options.AtMost(1, 9)},
		{Field: func(c *config) any { return &c.Rate }, Default: .5, Values: options.Below(0, 1)},
		{Field: func(c *config) any { return &c.Fanouts }, Values: options.AtLeast(1)},
		{Field: func(c *config) any { return &c.Keeps }, Rules: []options.Rule[config]{
			{Needs: deep, Why: "it keeps the states between layers"}, {Excludes: wide, Why: "they would not fit"}}},
		{Field: func(c *config) any { return &c.Width }, Level: options.Experimental, Rules: []options.Rule[config]{
			{Needs: deep, Idle: true, Why: "it is that of inner layers"}}},
	}}
}

// TestTable: defaults go by the options before them; what is refused is named with what was found, what was expected
// and what to do, by flags on a command line and by names in a program.
func TestTable(t *testing.T) {
	rate := func(x float64) *float64 { return &x }
	for _, c := range []struct {
		config     config
		text, name string // of the refusal; "" for none
	}{
		{config{}, "", ""},
		{config{Model: "gcm"}, "--model gcm is not known: did you mean gcn? Expected sage or gcn",
			"train: model gcm is not known: did you mean gcn? Expected sage or gcn"},
		{config{Layers: 10}, "--layers 10: expected 1 to 9", ""},
		{config{Rate: rate(0)}, "", ""},
		{config{Rate: rate(1)}, "--rate 1: expected 0 or more, and less than 1", ""},
		{config{Fanouts: []int{3, -1}}, "--fanouts -1: expected 1 or more", ""},
		{config{Keeps: true}, "--keeps-states needs a model of 2 layers or more, but found 1 layer: it keeps the states between layers. " +
			"Use --layers 2 or more", "train: keeps_states needs a model of 2 layers or more, but found 1 layer: it keeps the states " +
			"between layers. Use layers 2 or more"},
		{config{Keeps: true, Fanouts: []int{3}}, "", ""},
		{config{Keeps: true, Layers: 2, Width: 3}, "--keeps-states does not go with --x width: they would not fit. Use one of them",
			"train: keeps_states does not go with width: they would not fit. Use one of them"},
		{config{Width: 3}, "", ""}, // nobody gave it: an older run's
		{config{Width: 3, Given: []string{"width"}}, "--x width=3 needs a model of 2 layers or more, but found 1 layer: it is that of " +
			"inner layers. Use --layers 2 or more", ""},
	} {
		given := c.config
		table().Complete(&c.config)
		err := table().Check(&c.config)
		if err == nil && c.text == "" {
			continue
		}
		r, ok := err.(*options.Refusal)
		if !ok || r.Text != c.text || c.name != "" && r.Error() != c.name {
			t.Errorf("%+v: %v, expected %q", given, err, c.text)
		}
	}
	c := config{Fanouts: []int{5, 5}}
	table().Complete(&c)
	if c.Model != "sage" || c.Layers != 3 || *c.Rate != .5 {
		t.Errorf("the defaults are %+v", c)
	}
}

// TestBind: a command line sees defaults, words and rules.
func TestBind(t *testing.T) {
	var c config
	b := table().Bind(&c)
	var texts []string
	for _, f := range b.Fields {
		texts = append(texts, f.Flag+" "+f.Default)
	}
	if got := strings.Join(texts, "; "); got != "model sage; layers 1; rate .5; fanouts ; keeps-states ; width " {
		t.Errorf("flags and defaults: %q", got)
	}
	if f := b.Fields[4]; len(f.Rules) != 2 || f.Rules[0].Needs == "" || f.Rules[1].Excludes != "--x width" {
		t.Errorf("rules: %+v", f.Rules)
	}
	b.Fields[1].Value.SetInt(4)
	if c.Layers != 4 {
		t.Errorf("%d layers were set", c.Layers)
	}
}
