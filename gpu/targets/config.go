package targets

import (
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// Config is everything that decides a run's result, and what it may use. The zero value of a field means its default;
// Normalize fills them in. [Options] says of each field what flag it is, what it may be, and what it goes with.
type Config struct {
	Targets string `json:"targets"` // folder of the training table
	// KnownUntil is the moment after which nothing is known, whatever a seed's own: a date; "": each seed's own moment decides.
	KnownUntil string `json:"known_until,omitempty"`
	Sampler    string `json:"sampler"` // one of [asof.Latest] and [asof.Uniform]; default latest
	// Fanouts are rows by each relation, hop by hop; default 24,8, or 24,8,4 where that many hops are needed to reach every table whose rows
	// refer to the entities', directly or through others; with a row more for each hop that leads to what is recommended.
	Fanouts []int `json:"fanouts"`
	Recent  *int  `json:"recent"` // of these the latest that have a mean of their own; default 4
	// Past is whether the model reads earlier targets of the same entities, [said] or [denied]; default: it does where the task says
	// how long after a row its target is known, as timedelta.
	Past string `json:"past,omitempty"`
	// Counts is whether the model reads how many rows refer to each row, [said] or [denied]; default: it does.
	Counts string `json:"counts,omitempty"`
	// Average is whether the model that is validated and kept is an average of the parameters over steps, [said] or [denied]; default: it is
	// where targets are numbers.
	Average   string   `json:"average,omitempty"`
	Hidden    int      `json:"hidden"`  // columns of states; default 64
	Dropout   *float64 `json:"dropout"` // of hidden states; default .3, or .1 where rows are recommended
	BatchSize int      `json:"batch_size"`
	Epochs    int      `json:"epochs" resume:"free"` // default 0: until validation has not improved for Patience epochs
	Patience  int      `json:"patience" resume:"free"`
	LR        float64  `json:"lr"` // of Adam; default .003
	Seed      uint64   `json:"seed"`

	options.Running
}

// Normalize fills in defaults and says what is wrong with c: an error that matches [store.ErrInvalid].
func (c *Config) Normalize() error {
	t := Options()
	t.Complete(c)
	return store.Invalid(t.Check(c))
}

// Words of [Config].Past, Counts and Average.
const (
	said   = "yes"
	denied = "no"
)

// ReadsPast reports whether the model reads earlier targets, of a configuration that fits a task.
func (c *Config) ReadsPast() bool { return c.Past == said }

// counts reports whether the model reads how many rows refer to each.
func (c *Config) counts() bool { return c.Counts == said }

// averages reports whether parameters are averaged over steps.
func (c *Config) averages() bool { return c.Average == said }

// checkPast refuses to read earlier targets that are not known when, or are none that a model reads.
func (c *Config) checkPast(t *database.Task) error {
	switch {
	case !c.ReadsPast():
		return nil
	case t.Window == 0:
		return store.Invalid(fmt.Errorf("train: targets of rows: --x past=yes: task %q does not say how long after a row its target is known: add timedelta to its manifest, such as timedelta: 30 days", t.Name))
	case pastWidth(t) == 0:
		return store.Invalid(fmt.Errorf("train: targets of rows: --x past=yes: earlier targets are read where they are numbers or of at most %d classes", pastWidthMost))
	}
	return nil
}

// fit fills in what hangs on the database, and on the entities' table; rows are those of the training table.
func (c *Config) fit(m *store.Manifest, t *database.Task, rows int) {
	if c.Dropout == nil {
		if c.Dropout = new(.3); t.Kind == database.Recommendation { // more hides who bought what from those who learn of it
			c.Dropout = new(.1)
		}
	}
	if c.Past == "" {
		c.Past = denied
		if t.Window > 0 && pastWidth(t) > 0 && rows <= pastRowsMost {
			c.Past = said
		}
	}
	if c.Counts == "" {
		c.Counts = said
	}
	if c.Average == "" {
		c.Average = denied
		if t.Kind == database.Regression { // errors become smaller; what is ranked by scores is ranked no better
			c.Average = said
		}
	}
	if len(c.Fanouts) > 0 {
		return
	}
	if c.Fanouts = []int{24, 8}; reach(m, t.Table) > len(c.Fanouts) {
		c.Fanouts = append(c.Fanouts, 4)
	}
	for t.Items != "" && len(c.Fanouts) < distance(m, t.Table, t.Items) { // what an entity has to do with is looked at
		c.Fanouts = append(c.Fanouts, 1)
	}
}

// reach is how many references at most lead, one after another, from the rows of any table to those of one, on the shortest way.
func reach(m *store.Manifest, table string) (most int) {
	hops := map[string]int{table: 0}
	for found := []string{table}; len(found) > 0; found = found[1:] {
		for r := range m.Schema.Relations {
			src, dst, ok := m.Schema.Ends(store.RelationID(r))
			if !ok || m.Schema.NodeTypes[dst].Name != found[0] {
				continue
			}
			name := m.Schema.NodeTypes[src].Name
			if _, known := hops[name]; !known {
				hops[name] = hops[found[0]] + 1
				most = max(most, hops[name])
				found = append(found, name)
			}
		}
	}
	return most
}

// until is the moment after which nothing is known; the largest where each seed's own decides.
func (c *Config) until() (int64, error) { return ParseMoment(c.KnownUntil) }

// ParseMoment parses a moment: a date, with a time of day or without, in UTC; "" is the largest.
func ParseMoment(text string) (int64, error) {
	if text == "" {
		return 1<<63 - 1, nil
	}
	for _, layout := range []string{time.DateOnly, time.DateTime, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Unix(), nil
		}
	}
	return 0, store.Invalid(fmt.Errorf("%q is no moment, expected a date such as 2026-11-01 or 2026-11-01 12:00:00", text))
}

type option = options.Option[Config]

// Options is the table of the task's options, in the order in which defaults are filled in.
func Options() *options.Table[Config] {
	t := &options.Table[Config]{Task: "targets of rows"}
	t.Options = append(t.Options, modelOptions()...)
	t.Options = append(t.Options, options.RunningOptions(func(c *Config) *options.Running { return &c.Running })...)
	return t
}

func modelOptions() []option {
	return []option{
		{
			Field: func(c *Config) any { return &c.Targets }, Group: options.Data,
			Help: "folder of a training table (manifest.yaml; train, val and test): predict targets of rows of a database at moments, from what was known then",
		},
		{
			Field: func(c *Config) any { return &c.KnownUntil }, Group: options.Data, Level: options.Expert,
			Help:      "date after which nothing is known, whatever a seed's own moment, as RelBench's leaderboard has it",
			Otherwise: "each seed's own moment",
			Values:    options.Text("a date such as 2026-11-01", func(s string) bool { _, err := ParseMoment(s); return err == nil }),
		},
		{
			Field: func(c *Config) any { return &c.Sampler }, Group: options.Model,
			Default: asof.Latest, Values: options.Words(asof.Latest, asof.Uniform),
		},
		{
			Field: func(c *Config) any { return &c.Fanouts }, Group: options.Model,
			Otherwise: "24,8; 24,8,4 where tables refer to the entities' through two others", Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.Recent }, Group: options.Model, Level: options.Expert,
			Help:    "how many of the rows that are sampled by a relation, the latest, have a mean of their own beside that of all",
			Default: 4, Values: options.AtLeast(0),
		},
		{
			Field: func(c *Config) any { return &c.Past }, Group: options.Model, Level: options.Experimental,
			Help:      "read earlier targets of the same entities: those whose windows have ended by a seed's moment",
			Otherwise: "yes where the task's manifest says timedelta", Values: options.Words(said, denied),
		},
		{
			Field: func(c *Config) any { return &c.Counts }, Group: options.Model, Level: options.Experimental,
			Help:      "read how many rows refer to each row, in all and lately, which means over those that are sampled do not tell",
			Otherwise: said, Values: options.Words(said, denied),
		},
		{
			Field: func(c *Config) any { return &c.Average }, Group: options.Model, Level: options.Experimental,
			Help:      "validate and keep the model's average over about the last tenth of the steps so far, and not the last step's model",
			Otherwise: "yes where targets are numbers", Values: options.Words(said, denied),
		},
		{
			Field: func(c *Config) any { return &c.Hidden }, Group: options.Model,
			Default: 64, Values: options.AtMost(1, 1<<16),
		},
		{
			Field: func(c *Config) any { return &c.Dropout }, Group: options.Model,
			Otherwise: ".3; .1 where rows are recommended", Values: options.Below(0, 1),
		},
		{
			Field: func(c *Config) any { return &c.BatchSize }, Group: options.Optimiser,
			Default: 256, Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.Epochs }, Group: options.Optimiser,
			Otherwise: "until validation has not improved for --patience epochs", Values: options.AtLeast(0),
		},
		{
			Field: func(c *Config) any { return &c.Patience }, Group: options.Optimiser,
			Default: 5, Values: options.AtLeast(1),
		},
		{
			Field: func(c *Config) any { return &c.LR }, Group: options.Optimiser,
			Default: .003, Values: options.Positive(),
		},
		options.Seed(func(c *Config) any { return &c.Seed }),
	}
}
