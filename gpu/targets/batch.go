package targets

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store/budget"
)

// How ages and seasons are encoded.
const (
	ageColumns    = 6 // ln(1 + days), decay by a week, a month, a year and ten years, and 1
	seasonColumns = 6 // sine and cosine of the place in the year, the week and the day
)

// decays are the days after which a column of an age is 1/e.
var decays = [...]float64{7, 30, 365, 3650}

// appendAge appends the columns of an age in seconds.
func appendAge(out []float32, seconds float64) []float32 {
	days := max(seconds, 0) / 86400
	out = append(out, float32(math.Log1p(days)/8))
	for _, d := range decays {
		out = append(out, float32(math.Exp(-days/d)))
	}
	return append(out, 1)
}

// appendSeason appends the columns of a moment.
func appendSeason(out []float32, moment int64) []float32 {
	t := time.Unix(max(min(moment, 1<<37), -1<<37), 0).UTC()
	day := float64(t.Hour()*3600+t.Minute()*60+t.Second()) / 86400
	for _, turn := range []float64{(float64(t.YearDay()) - 1 + day) / 366, (float64(t.Weekday()) + day) / 7, day} {
		sin, cos := math.Sincos(2 * math.Pi * turn)
		out = append(out, float32(sin), float32(cos))
	}
	return out
}

// part are a batch's rows of one type.
type part struct {
	at         []uint32   // their places among the batch's rows
	places     [][]uint32 // by feature of the type: their rows in it
	categories [][]uint32 // by category: their numbers; of items last the numbers of their vectors
	moving     []float32  // [rows × data.movingColumns]: what hangs on the seed's moment
}

// extra is what the model reads of a batch beyond its blocks.
type extra struct {
	parts   []part    // by type
	season  []float32 // [seeds × (seasonColumns, those of earlier targets and data.throughColumns)]
	truth   truth
	choice  choice // of a recommendation
	dropout uint64
	checked int // rows that were held to the rule
}

// batch is a mini-batch.
type batch struct {
	mini.Batch
	extra
}

// feed makes batches of examples.
type feed struct {
	d        *data
	sampler  *asof.Sampler
	examples []example
	lists    [][]uint32         // of targets that are lists
	items    *items             // nil: no recommendation that trains
	order    *keyed.Permutation // nil: as they come
	size     int
	until    int64 // after it nothing is known
	key      keyed.Key
	hide     keyed.Key // of whom is shown no earlier targets, in training
	epoch    int
	seeds    []uint32
	moments  []int64
}

func (f *feed) batches() int { return (len(f.examples) + f.size - 1) / f.size }

// fill makes batch i.
func (f *feed) fill(i int, b *batch) error {
	b.truth.lists = b.truth.lists[:0]
	f.seeds, f.moments, b.season, b.truth.targets = f.seeds[:0], f.moments[:0], b.season[:0], b.truth.targets[:0]
	for k := i * f.size; k < min((i+1)*f.size, len(f.examples)); k++ {
		at := k
		if f.order != nil {
			at = int(f.order.At(uint64(k)))
		}
		e := f.examples[at]
		known := min(e.moment, f.until)
		f.seeds, f.moments = append(f.seeds, e.row), append(f.moments, known)
		b.season, b.truth.targets = appendSeason(b.season, e.moment), append(b.truth.targets, e.target)
		if f.order != nil && hidden(f.hide, f.epoch, at) {
			b.season = f.d.past.appendNone(b.season)
		} else {
			b.season = f.d.past.append(b.season, e.row, known)
		}
		b.season = f.d.appendThrough(b.season, e.row, known)
		if f.lists != nil {
			b.truth.lists = append(b.truth.lists, f.lists[e.list])
		}
	}
	if err := f.sampler.Sample(mini.Key{Epoch: f.epoch, Batch: i}, uint64(i), f.seeds, f.moments, &b.Batch); err != nil {
		return err
	}
	b.dropout = f.key.With(uint64(f.epoch)).At(uint64(i))
	b.choice.items = b.choice.items[:0]
	if err := f.d.read(b); err != nil || f.items == nil {
		return err
	}
	f.items.fill(b, f, i)
	f.items.readItems(b)
	return nil
}

// each makes the batches of examples that are answered, one after another in b, and counts the rows that were held to the rule.
func (f *feed) each(ctx context.Context, b *batch, answer func(i int) error) (checked int64, err error) {
	for i := range f.batches() {
		if err := ctx.Err(); err != nil {
			return checked, err
		}
		if err := f.fill(i, b); err != nil {
			return checked, fmt.Errorf("evaluation: batch %d: %w", i, err)
		}
		checked += int64(b.checked)
		budget.Mark(ctx, "evaluation")
		if err := answer(i); err != nil {
			return checked, fmt.Errorf("evaluation: batch %d: %w", i, progress.BudgetError(err))
		}
	}
	return checked, nil
}

// emptyParts makes room for the rows of a batch by type.
func (d *data) emptyParts(b *batch) {
	if b.parts == nil {
		b.parts = make([]part, len(d.names))
		for t := range b.parts {
			b.parts[t].places, b.parts[t].categories = make([][]uint32, len(d.columns[t])), make([][]uint32, len(d.groups[t]))
			if d.items != nil && d.items.kind == t {
				b.parts[t].categories = append(b.parts[t].categories, nil)
			}
		}
	}
	for t := range b.parts {
		p := &b.parts[t]
		p.at, p.moving = p.at[:0], p.moving[:0]
		for k := range p.places {
			p.places[k] = p.places[k][:0]
		}
		for k := range p.categories {
			p.categories[k] = p.categories[k][:0]
		}
	}
}

// readRow finds what the model reads of a row, of a type, which is one of a batch's.
func (d *data) readRow(p *part, kind int, at, row uint32) {
	p.at = append(p.at, at)
	for k, c := range d.columns[kind] {
		p.places[k] = append(p.places[k], d.place(c, row))
	}
	for k, c := range d.groups[kind] {
		p.categories[k] = append(p.categories[k], d.category(c, row))
	}
	if x := d.items; x != nil && x.kind == kind {
		n := len(d.groups[kind])
		p.categories[n] = append(p.categories[n], x.vectorOf(row))
	}
}

// read finds what the model reads of a batch's rows, and holds every one of them to the rule. A seed's own row that came later is not read: it
// has a state of zeros.
func (d *data) read(b *batch) error {
	d.emptyParts(b)
	b.checked = 0
	for i, row := range b.Input {
		moment, at := b.Times[i], d.graph.Time(row)
		if at > moment {
			if i < len(b.Seeds) {
				continue
			}
			return fmt.Errorf("a row of %s of time %d was sampled for a seed at %d: expected none that is later", d.names[d.types[row]], at, moment)
		}
		b.checked++
		t := d.types[row]
		p := &b.parts[t]
		d.readRow(p, int(t), uint32(i), row)
		if d.timed[t] {
			p.moving = appendAge(p.moving, float64(moment)-float64(at))
		}
		p.moving = d.appendCounts(p.moving, int(t), row, moment)
	}
	return nil
}

// movingColumns are the numbers that are read of a row of a type and hang on the seed's moment: its age, if it has a time, and how many rows
// refer to it.
func (d *data) movingColumns(kind int) int {
	n := d.countColumns(kind)
	if d.timed[kind] {
		n += ageColumns
	}
	return n
}
