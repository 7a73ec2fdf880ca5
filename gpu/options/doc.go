// Package options describes what a run can be told, as a table: an entry says of one option its flag, default, values
// and help, what it needs of the others, of the model and of the store, what it does not go with, and why.
//
// # Model
//
// A task has a configuration, a struct C with JSON names, which is stored with its runs, and a [Table] of [Option]s
// of C. All else follows from the table: [Table.Complete] fills in defaults, [Table.Check] and [Table.CheckStore]
// refuse what does not go together, [Table.Bind] hands fields to a command line, and [WritePage] writes the page
// "what goes with what". A new option is a field and an entry.
//
//	{
//		Field: func(c *Config) any { return &c.HistoryDtype }, Group: OutOfCore, Level: Experimental,
//		Help:      "type of the numbers that a history keeps",
//		Otherwise: "float32, or float16 where features take 16 bits or fewer",
//		Values:    Words("float32", "float16", "bfloat16"),
//		Rules:     []Rule{{Needs: aHistory, Why: "it says how a history's rows are stored"}},
//	}
//
// # Concurrency
//
// A table is a value that nothing changes; it is made when it is asked for.
package options
