package options

import "github.com/gstore/gstore/store"

// Level is who an option is for.
type Level int

// Levels.
const (
	Plain        Level = iota // for everybody: shown by --help
	Expert                    // shown by --help-all
	Experimental              // measured, and of no use by default: given as --x NAME=VALUE, shown by --help-x
)

// Option is one option of configurations C.
type Option[C any] struct {
	// Field returns the address of the field of C that the option fills: a bool, a string, an int, an int64, a
	// uint64, a float64, a list of one of these, or a pointer to one of these where the zero value is a choice of its
	// own.
	Field func(*C) any
	Flag  string // default: the field's JSON name, with dashes
	Group string // its heading in the help
	Level Level
	Help  string // a phrase; "" where another task's option of the same flag has one
	// Default is what a field that was not set becomes: a value, or a func(*C) any that goes by the options before
	// it. nil: the zero value, which then says that the run decides. Otherwise says in words what the default is
	// where no single value does.
	Default   any
	Otherwise string
	// Zero is what the number 0 is kept as, where the field's zero value means the default.
	Zero   string
	Values Values
	// Unproven are those of its Values that only --x takes.
	Unproven []string
	// Check says in a sentence, with flags as on a command line, what is wrong with the option's value; "" for
	// nothing. It is for what Values and Rules cannot say.
	Check func(*C) string
	Rules []Rule[C]
}

// Rule is what an option asks of the rest: what it needs, or what it does not go with. One of Needs and Excludes is
// set.
type Rule[C any] struct {
	When     Condition[C] // default: the option has another value than its default
	Needs    Condition[C]
	Excludes Condition[C]
	Why      string // a clause: "the sums give all neighbours the same weight"
	// Idle: without what it needs the option does nothing. It is refused where the caller gave it (the field Given of
	// C names it), but not in a configuration that a program or an older version made.
	Idle bool
}

// Condition is something that a configuration is or has.
type Condition[C any] struct {
	Text string // a noun phrase, with flags as on a command line: "--sampler pinsage", "a model with hidden layers"
	// Holds says whether c has it. Store says so where it depends on the store, which m describes; [Table.Check] does
	// not ask it.
	Holds func(c *C) bool
	Store func(c *C, m *store.Manifest) bool
	// Found says what c has instead: "--layers 1"; nil: nothing is said of it.
	Found func(c *C) string
	Fix   string // what to do, as an order: "Use --layers 2 or more"
	Is    error  // what the refusal matches beside [store.ErrInvalid]; nil: nothing
}

// With is the condition with another remedy.
func (x Condition[C]) With(fix string) Condition[C] {
	x.Fix = fix
	return x
}

// set reports whether the condition is one.
func (x *Condition[C]) set() bool { return x.Holds != nil || x.Store != nil }

// Table is the options of a task.
type Table[C any] struct {
	Task    string // as messages name it
	Options []Option[C]
}
