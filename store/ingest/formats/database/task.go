package database

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"gopkg.in/yaml.v3"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/parquet"
	"github.com/gstore/gstore/store/ingest/formats/postgres"
	"github.com/gstore/gstore/store/ingest/formats/sqlite"
	"github.com/gstore/gstore/store/ingest/formats/table"
	"github.com/gstore/gstore/store/ingest/formats/text"
)

// Task is a folder of training tables, as RelBench has them: what is asked of rows of a table at moments. Its manifest.yaml says what the
// columns of train, val and test (.parquet, .csv or .tsv) are, or how a database is asked for them.
type Task struct {
	Name   string `yaml:"name"`
	Kind   string `yaml:"task_type"` // a kind of task
	Table  string `yaml:"entity_table"`
	Entity string `yaml:"entity_col"`
	Time   string `yaml:"time_col"`
	Target string `yaml:"target_col"`
	// Of a recommendation, whose targets are lists of keys: the table that they are rows of, and how many are recommended; the entities are called
	// sources there.
	Items string `yaml:"dst_entity_table" json:",omitempty"`
	K     int    `yaml:"eval_k" json:",omitempty"`
	// Timedelta is the window after a row's moment that its target is about, such as "30 days", and Window it in seconds; 0: not said.
	Timedelta string `yaml:"timedelta" json:",omitempty"`
	Window    int64  `yaml:"-" json:",omitempty"`
	// Classes are what the targets of a classification of several are, in order; training finds them.
	Classes []string `yaml:"-" json:",omitempty"`
	// Source is an SQLite file, from the folder on, or the address of a PostgreSQL database, that Queries are asked of: by part, train, val
	// and test, a statement whose answer has the three columns. Without, a part is a file.
	Source  string            `yaml:"source" json:"-"`
	Queries map[string]string `yaml:"queries" json:"-"`

	fs  vfs.FS
	dir string
}

// Kinds of tasks.
const (
	Binary         = "binary_classification"
	Multiclass     = "multiclass_classification" // one of several classes, of any names
	Multilabel     = "multilabel_classification" // any number of several labels, as a list
	Regression     = "regression"
	Recommendation = "recommendation" // rows of a table, as a list of their keys
)

// taskKinds lists them, and older names of theirs.
var taskKinds = map[string]string{Binary: Binary, Multiclass: Multiclass, Multilabel: Multilabel, Regression: Regression, Recommendation: Recommendation,
	"link_prediction": Recommendation}

// Targets are rows of a training table: of which row of the entities' table something is asked, when, and the answer.
type Targets struct {
	Keys   []string  // external ids, TABLE:KEY
	Times  []int64   // seconds since 1970, rounded down: what is known then was known at the moment itself
	Values []float64 // NaN = unknown; of a regression, or 0 and 1
	// Words are what is asked for by other kinds of tasks, of each row: a class, labels, or external ids TABLE:KEY of what is recommended.
	Words [][]string
}

// OpenTask reads a task's manifest.
func OpenTask(fs vfs.FS, dir string) (*Task, error) {
	if fs == nil {
		fs = vfs.Default
	}
	path := fs.PathJoin(dir, "manifest.yaml")
	b, err := readFile(fs, path)
	if err != nil {
		return nil, fmt.Errorf("a task is a folder with manifest.yaml and the tables train, val and test: %w", err)
	}
	t, err := ParseTask(path, b)
	if err != nil {
		return nil, err
	}
	if t.fs, t.dir = fs, dir; t.Name == "" {
		t.Name = fs.PathBase(dir)
	}
	return t, nil
}

// ParseTask reads a task's manifest; where is for messages.
func ParseTask(where string, b []byte) (*Task, error) {
	t := &Task{}
	said := struct {
		*Task  `yaml:",inline"`
		Table  string `yaml:"src_entity_table"`
		Entity string `yaml:"src_entity_col"`
	}{Task: t}
	if err := yaml.Unmarshal(b, &said); err != nil {
		return nil, ingest.Inputf(where, "no task: %v", err)
	}
	kind, known := taskKinds[t.Kind]
	if known {
		t.Kind = kind
	}
	if kind == Recommendation {
		t.Table, t.Entity = cmp.Or(t.Table, said.Table), cmp.Or(t.Entity, said.Entity)
		if t.K == 0 {
			t.K = recommended
		}
	}
	var timed bool
	t.Window, timed = parseWindow(t.Timedelta)
	switch {
	case !timed:
		return nil, ingest.Inputf(where, "timedelta %q: expected the window of the targets, such as \"30 days\" or \"12:00:00\"", t.Timedelta)
	case !known:
		return nil, ingest.Inputf(where, "task_type %q, expected one of %q", t.Kind, slices.Sorted(maps.Values(taskKinds)))
	case kind == Recommendation && (t.Items == "" || t.K < 1):
		return nil, ingest.Inputf(where, "dst_entity_table %q, eval_k %d: expected the table of what is recommended, and how many", t.Items, t.K)
	case (t.Source == "") != (len(t.Queries) == 0):
		return nil, ingest.Inputf(where, "source %q and %d queries: a source goes with queries: {train: …, val: …, test: …}", t.Source, len(t.Queries))
	case t.Table == "" || strings.Contains(t.Table, ":") || t.Entity == "" || t.Time == "" || t.Target == "":
		return nil, ingest.Inputf(where, "entity_table %q, entity_col %q, time_col %q, target_col %q: expected a table and names of three columns", t.Table, t.Entity, t.Time, t.Target)
	}
	return t, nil
}

// spans are units of time in seconds, by the words for them without a plural's s.
var spans = map[string]int64{"week": 604800, "w": 604800, "day": 86400, "d": 86400, "hour": 3600, "h": 3600, "minute": 60, "min": 60, "second": 1, "sec": 1}

// parseWindow parses a span of time: "30 days", "4 hours", "2 weeks 1 day", and as pandas and Python write it, "1 days 12:00:00",
// "7 days, 0:00:00" or "12:00:00"; "" is 0.
func parseWindow(text string) (seconds int64, ok bool) {
	words := strings.Fields(strings.ReplaceAll(strings.ToLower(text), ",", ""))
	if len(words) == 0 {
		return 0, true
	}
	if at, err := time.Parse("15:04:05", words[len(words)-1]); err == nil { // a fraction of a second too
		seconds = int64(at.Hour()*3600 + at.Minute()*60 + at.Second())
		words = words[:len(words)-1]
	}
	for ; len(words) > 1; words = words[2:] {
		n, err := strconv.ParseInt(words[0], 10, 32)
		unit := spans[strings.TrimSuffix(words[1], "s")]
		if err != nil || n < 0 || unit == 0 || n > 1<<40/unit {
			return 0, false
		}
		seconds += n * unit
	}
	return seconds, len(words) == 0 && seconds > 0
}

// recommended is how many rows are recommended where nothing says it.
const recommended = 10

// partNames are what the tables of parts are called.
var partNames = map[string][]string{"train": {"train"}, "valid": {"val", "valid"}, "test": {"test"}}

// Read reads the table of a part: train, valid or test. An entity or a time that is missing is an error, a target is not. Of test there may be
// no table, or one without the column of targets: nothing is known of it yet.
func (t *Task) Read(ctx context.Context, part string) (*Targets, error) {
	if len(t.Queries) > 0 {
		return t.ask(ctx, part)
	}
	for _, name := range partNames[part] {
		for _, suffix := range tableSuffixes {
			if path := t.fs.PathJoin(t.dir, name+suffix); files.IsFile(t.fs, path) {
				return t.readFile(ctx, path, training(part))
			}
		}
	}
	if part == "test" {
		return &Targets{}, nil
	}
	return nil, ingest.Inputf(t.dir, "no table of part %s: expected %s.parquet, .csv or .tsv", part, strings.Join(partNames[part], " or "))
}

// needs are the columns that a table has beside its entities.
type needs struct{ times, targets bool }

// training are the needs of a part of the training table.
func training(part string) needs { return needs{times: true, targets: part != "test"} }

// ReadFile reads a table of entities that are asked about, with times if it has them; those that it lacks are math.MaxInt64. Targets are not read.
func (t *Task) ReadFile(ctx context.Context, path string) (*Targets, error) {
	return t.readFile(ctx, path, needs{})
}

func (t *Task) readFile(ctx context.Context, path string, n needs) (*Targets, error) {
	if t.fs == nil { // of a model that was saved
		t.fs = vfs.Default
	}
	open := func() (table.Table, error) {
		if strings.HasSuffix(path, ".parquet") {
			return parquet.Open(t.fs, path)
		}
		return text.OpenTable(t.fs, path, table.Options{})
	}
	in, err := open()
	if err != nil {
		return nil, err
	}
	return t.read(ctx, in, n)
}

// ask reads what the query of a part answers.
func (t *Task) ask(ctx context.Context, part string) (*Targets, error) {
	for _, name := range partNames[part] {
		query, ok := t.Queries[name]
		switch {
		case !ok:
		case postgres.Is(t.Source):
			return t.askServer(ctx, name, query, training(part))
		default:
			return t.askFile(ctx, name, query, training(part))
		}
	}
	if part == "test" {
		return &Targets{}, nil
	}
	return nil, ingest.Inputf(t.dir, "queries: has none of part %s, expected one called %s", part, strings.Join(partNames[part], " or "))
}

// askFile asks an SQLite file.
func (t *Task) askFile(ctx context.Context, name, query string, n needs) (_ *Targets, err error) {
	path := t.Source
	if !filepath.IsAbs(path) {
		path = t.fs.PathJoin(t.dir, path)
	}
	if !sqlite.Is(t.fs, path) {
		return nil, ingest.Inputf(path, "no SQLite file, which source: in %s names for its queries", t.dir)
	}
	f, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in, err := f.Query(ctx, name, query)
	if err != nil {
		return nil, err
	}
	return t.read(ctx, in, n)
}

// askServer asks a PostgreSQL server, whose answer is copied to a file first, as its tables are.
func (t *Task) askServer(ctx context.Context, name, query string, n needs) (_ *Targets, err error) {
	db, err := postgres.Open(ctx, t.Source)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	answer, err := db.Query(ctx, name, query)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "gstore-answer-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, name+".parquet")
	if err := spoolTable(ctx, vfs.Default, db, answer, path); err != nil {
		return nil, err
	}
	in, err := parquet.Open(vfs.Default, path)
	if err != nil {
		return nil, err
	}
	return t.read(ctx, in, n)
}

// read reads a table of entities: targets if times are needed and it has some.
func (t *Task) read(ctx context.Context, in table.Table, n needs) (*Targets, error) {
	cols := in.Columns()
	place := func(name string) int {
		return slices.IndexFunc(cols, func(c table.Column) bool { return c.Name == name })
	}
	entity, at, target := place(t.Entity), place(t.Time), place(t.Target)
	if entity < 0 || n.times && at < 0 || n.targets && target < 0 {
		return nil, ingest.Inputf(in.Where(), "columns %q, expected %q, %q and %q", table.ColumnNames(cols), t.Entity, t.Time, t.Target)
	}
	want := []table.Want{{At: entity}}
	timed := at >= 0
	if timed {
		want = append(want, table.Want{At: at})
		if !cols[at].Text && cols[at].Elem != blocks.Invalid {
			want[1].Elem = blocks.Int64
		}
	}
	told := n.times && target >= 0
	if told {
		w := table.Want{At: target, Elem: blocks.Float64}
		if t.words() {
			w.Elem = blocks.Invalid
		}
		want = append(want, w)
	}
	r := &rows{Table: in, cols: cols, words: wordy(in)}
	out := &Targets{}
	in.Use(want)
	var id []byte
	err := in.Read(ctx, ingest.Env{Threads: 1, MemoryBytes: ingest.SourceBytes}, want, func(b *table.Batch) error {
		for i := range b.Rows {
			var ok bool
			if id, ok = r.appendKey(id[:0], t.Table, []int{entity}, b, 0, i); !ok {
				return ingest.Inputf(b.At.Of(i), "a row without an entity: %q is empty", t.Entity)
			}
			moment := int64(math.MaxInt64)
			switch {
			case timed && want[1].Elem == blocks.Int64:
				moment = int64(binary.LittleEndian.Uint64(b.Numbers[1][8*i:]))
			case timed:
				x, err := table.ParseTime(b.Text[1].At(i))
				if err != nil {
					return ingest.Inputf(b.At.Of(i), "%v", err)
				}
				moment = int64(x)
			}
			value := math.NaN()
			switch {
			case told && t.words():
				words, ok := t.wordsOf(r, target, b.Text[2].At(i))
				if out.Words = append(out.Words, words); ok {
					value = 0
				}
			case told:
				value = math.Float64frombits(binary.LittleEndian.Uint64(b.Numbers[2][8*i:]))
				if t.Kind == Binary && value != 0 && value != 1 && !math.IsNaN(value) {
					return ingest.Inputf(b.At.Of(i), "target %v of %q, expected 0 or 1", value, t.Target)
				}
			case n.times && t.words():
				out.Words = append(out.Words, nil)
			}
			out.Keys, out.Times, out.Values = append(out.Keys, string(id)), append(out.Times, moment), append(out.Values, value)
		}
		return ctx.Err()
	})
	return out, err
}

// words reports whether targets are words.
func (t *Task) words() bool { return t.Kind != Binary && t.Kind != Regression }

// wordsOf are the words of a target, in column k of a table; ok is false where it is unknown. An empty list of labels is known, one of recommended rows
// says nothing.
func (t *Task) wordsOf(r *rows, k int, v []byte) (words []string, ok bool) {
	if t.Kind == Multiclass {
		if r.absent(v) {
			return nil, false
		}
		return []string{string(r.plainKey(k, v))}, true
	}
	if words, ok = table.SplitList(v); t.Kind == Multilabel {
		return words, ok
	}
	for i, w := range words {
		words[i] = t.Items + ":" + string(r.plainKey(k, []byte(w)))
	}
	return words, len(words) > 0
}
