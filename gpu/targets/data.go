package targets

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/store/stats"
)

// example is a row of a training table.
type example struct {
	row    uint32
	list   uint32 // of lists of targets
	moment int64
	target float32
}

// data is a store's graph in memory, with what is known of its nodes.
type data struct {
	mb      *buffer.MacroBatch
	graph   *asof.Graph
	types   []uint16 // of each row of the buffer
	columns [][]int  // by type: its features among mb.Features
	groups  [][]int  // by type: its categories
	values  []int    // of each of mb.Features: a category's vectors, counted from 0; 0 of others
	timed   []bool   // by type: its rows have times
	counted [][]int  // by type: relations by which rows refer to its rows, which are counted; nil: none are
	through [][2]int // of seeds: pairs of relations by which rows refer to rows that refer to them, which are counted
	items   *items   // what is recommended, if a vector is learned of each; else nil
	past    *past    // earlier targets; nil: the model reads none
	names   []string
}

// opened is data whose buffer is open.
type opened struct {
	*data
	it    *buffer.Buffer
	batch int64 // bytes that the tensors of a batch may take; 0: no bound
}

// features are the columns that the model reads: features, and categories of values. What numbers nodes is none: a row that comes after
// training has no vector of its own.
func features(m *store.Manifest) (names []string) {
	for _, c := range m.Columns {
		category := c.Role == store.RoleNode && c.Categories != nil
		if (c.Role == store.RoleFeature && c.Derived == "" || category) && c.NodeType != "" {
			names = append(names, c.Name)
		}
	}
	return names
}

// encoding tells stores apart whose columns of a name mean another thing: of other elements or categories, or standardised otherwise.
func encoding(m *store.Manifest) string {
	h := sha256.New()
	for _, name := range features(m) {
		if c, err := m.Column(name); err == nil {
			_ = json.NewEncoder(h).Encode([]any{c.Name, c.Elem, c.Dim, c.Elements, c.Categories, c.Standard, c.Scale})
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// bufferOptions are those of the graph of a run.
func bufferOptions(m *store.Manifest, dev gpu.Device, cfg *Config) buffer.Options {
	return buffer.Options{EngineName: cfg.IOEngine, Both: true, Relations: true, Keys: true, Runs: true, Features: features(m), Threads: cfg.Threads, Pin: gpu.Pin(dev)}
}

// open reads a store's graph. A budget that is too small is [store.ErrBudget] before that.
func open(ctx context.Context, st *store.Store, dev gpu.Device, cfg *Config, u use) (_ *opened, err error) {
	m := st.Manifest()
	if err := check(m); err != nil {
		return nil, err
	}
	o := bufferOptions(m, dev, cfg)
	var account budget.Account
	if cfg.MemoryBytes > 0 {
		if account, err = accountOf(ctx, st, dev.Info(), cfg, o, u); err != nil {
			return nil, err
		}
		if err := account.Fits(); err != nil {
			return nil, fmt.Errorf("train: targets of rows: %w", err)
		}
		budget.Begin(ctx, &account)
	}
	o.MemoryBytes = account.Of(holdsGraph)
	it, err := buffer.Open(ctx, st, o)
	if err != nil {
		return nil, fmt.Errorf("train: targets of rows: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, it.Close())
		}
	}()
	step := buffer.Step{}
	for p := range m.Partitions {
		step.Resident = append(step.Resident, store.PartitionID(p))
	}
	if err := it.Start(buffer.Plan{Policy: "memory", Steps: []buffer.Step{step}}); err != nil {
		return nil, err
	}
	if !it.Next() {
		return nil, it.Err()
	}
	d, err := newData(ctx, st, it.MacroBatch(), cfg, u.entity)
	if err != nil {
		return nil, err
	}
	return &opened{d, it, account.Of(holdsBatch)}, nil
}

// accountOf says who holds what of a run. Edges are counted for it, as a mini-batch may have as many rows as they lead to.
func accountOf(ctx context.Context, st *store.Store, info gpu.Info, cfg *Config, o buffer.Options, u use) (a budget.Account, err error) {
	most, err := stats.MostIn(ctx, st, (cfg.MemoryBytes-budget.ProgramBytes)/2)
	if err == nil {
		a, err = forecast(ctx, st, info, cfg, o, u, most)
	}
	if err != nil {
		return a, fmt.Errorf("train: targets of rows: %w", err)
	}
	return a, nil
}

// check says whether a store holds a database.
func check(m *store.Manifest) error {
	switch {
	case m.Schema.Undirected:
		return fmt.Errorf("train: targets of rows: %w: an undirected store does not say which row refers to which: ingest a database as it is", store.ErrInvalid)
	case slices.ContainsFunc(m.Partitions, func(p store.PartitionInfo) bool { return p.Types == nil }):
		return fmt.Errorf("train: targets of rows: %w: the store does not say of which table each node is: ingest a database (gstore ingest)", store.ErrInvalid)
	}
	if c, err := m.RelationColumn(); err != nil || c == nil {
		return fmt.Errorf("train: targets of rows: %w: the store's edges have no relations: ingest a database (gstore ingest)", store.ErrInvalid)
	}
	return nil
}

// newData puts together what is known of the rows of a macro-batch that holds the whole graph.
func newData(ctx context.Context, st *store.Store, mb *buffer.MacroBatch, cfg *Config, entity string) (*data, error) {
	m := st.Manifest()
	d := describe(m, cfg, entity)
	d.mb, d.types = mb, make([]uint16, mb.Rows)
	times := make([]int64, mb.Rows)
	for i := range times {
		times[i] = asof.Always
	}
	for _, p := range mb.Partitions {
		row := p.Base
		for t, n := range m.Partitions[p.ID].Types {
			for range n {
				d.types[row] = uint16(t)
				row++
			}
		}
	}
	var b []byte
	for _, name := range d.names {
		c := m.RowTime(name)
		if c == nil {
			continue
		}
		for _, p := range mb.Partitions {
			var err error
			if b, err = st.ReadColumn(ctx, c.Name, p.ID, b[:0]); err != nil {
				return nil, err
			}
			rows := m.NodeRows(c, p.ID)
			for k := rows.First; k < rows.First+rows.Rows; k++ {
				if row := p.Base + uint32(k); d.names[d.types[row]] == name {
					times[row] = int64(binary.LittleEndian.Uint64(b[8*k:]))
				}
			}
		}
	}
	var err error
	d.graph, err = asof.NewGraph(mb, times, len(m.Schema.Relations), cfg.Threads)
	return d, err
}

// describe says what a model by cfg reads of the rows of each type, of trees whose seeds are of one, entity.
func describe(m *store.Manifest, cfg *Config, entity string) *data {
	d := &data{}
	for _, t := range m.Schema.NodeTypes {
		d.names, d.timed = append(d.names, t.Name), append(d.timed, m.RowTime(t.Name) != nil)
	}
	if cfg.counts() {
		d.countRelations(m, entity)
	}
	d.columns, d.groups = make([][]int, len(d.names)), make([][]int, len(d.names))
	for i, name := range features(m) {
		c, err := m.Column(name)
		t := slices.Index(d.names, c.NodeType)
		d.values = append(d.values, 0)
		switch {
		case err != nil || t < 0:
		case c.Categories != nil:
			d.groups[t], d.values[i] = append(d.groups[t], i), len(c.Categories)+1
		default:
			d.columns[t] = append(d.columns[t], i)
		}
	}
	return d
}

// place is the row of a feature that holds row of the buffer.
func (d *data) place(column int, row uint32) uint32 {
	if r := d.mb.Features[column].Runs; r != nil {
		return r.Place(row)
	}
	return row
}

// category is the number of a row's value.
func (d *data) category(column int, row uint32) uint32 {
	c := &d.mb.Features[column]
	return binary.LittleEndian.Uint32(c.Data[int(d.place(column, row))*c.Stride:])
}

// node is the node of a row of the macro-batch.
func (d *data) node(row uint32) store.NodeID {
	for _, p := range d.mb.Partitions {
		if row >= p.Base && uint64(row-p.Base) < uint64(p.Nodes) {
			return p.First + store.NodeID(row-p.Base)
		}
	}
	return store.NoNode
}

// row is a node's row of the macro-batch.
func (d *data) row(v store.NodeID) (uint32, error) {
	for _, p := range d.mb.Partitions {
		if v >= p.First && uint64(v-p.First) < uint64(p.Nodes) {
			return p.Base + uint32(v-p.First), nil
		}
	}
	return 0, fmt.Errorf("%w: node %d", store.ErrNotFound, v)
}

// examples resolves the rows of a part of a training table. Those without a target are left out.
func (t *task) examples(ctx context.Context, st *store.Store, of *database.Task, part *database.Targets) (list []example, err error) {
	nodes, err := t.entities(ctx, st, part.Keys)
	if err != nil {
		return nil, err
	}
	numbers := map[string]uint32{}
	for i, c := range of.Classes {
		numbers[c] = uint32(i)
	}
	var listed [][]uint32
	if t.kind.recommending() {
		if listed, err = t.listed(ctx, st, part.Words); err != nil {
			return nil, err
		}
	}
	for i, row := range nodes {
		if math.IsNaN(part.Values[i]) {
			continue
		}
		e := example{row: row, moment: part.Times[i], target: float32(part.Values[i])}
		switch {
		case t.kind.name == database.Multiclass:
			e.target = float32(numbers[part.Words[i][0]])
		case t.kind.recommending():
			if len(listed[i]) == 0 { // of rows that are not there
				continue
			}
			e.list = uint32(len(t.lists))
			t.lists = append(t.lists, listed[i])
		case t.kind.listed():
			e.list = uint32(len(t.lists))
			var words []uint32
			for _, w := range part.Words[i] {
				if k := numbers[w]; !slices.Contains(words, k) {
					words = append(words, k)
				}
			}
			t.lists = append(t.lists, words)
		}
		list = append(list, e)
	}
	return list, nil
}

// listed are the items that lists of keys name, each once. What names no row is left out.
func (t *task) listed(ctx context.Context, st *store.Store, words [][]string) (lists [][]uint32, err error) {
	all := slices.Concat(words...) // at once: each look-up opens the dictionary
	nodes := make([]store.NodeID, len(all))
	if err := st.LookupStrings(ctx, all, nodes); err != nil {
		return nil, err
	}
	if k := slices.IndexFunc(nodes, func(id store.NodeID) bool { return id != store.NoNode }); k < 0 && len(all) > 0 {
		table, key, _ := strings.Cut(all[0], ":")
		return nil, fmt.Errorf("train: targets of rows: %w: none of the %d keys that a part of the training table lists, such as %q, is a row of table %q; are they those that were ingested?",
			store.ErrInvalid, len(all), key, table)
	}
	for _, list := range words {
		var items []uint32
		of := nodes[:len(list)]
		nodes = nodes[len(list):]
		for _, id := range of {
			if id == store.NoNode {
				continue
			}
			row, err := t.row(id)
			if err != nil {
				return nil, err
			}
			if k, ok := t.items.of(row); ok && !slices.Contains(items, k) {
				items = append(items, k)
			}
		}
		lists = append(lists, items)
	}
	return lists, nil
}

// entities are the rows of the buffer that keys of a training table name.
func (d *data) entities(ctx context.Context, st *store.Store, keys []string) (rows []uint32, err error) {
	if st.Manifest().IDs.Kind != store.IDsStrings {
		return nil, fmt.Errorf("train: targets of rows: %w: nodes are not called TABLE:KEY: ingest a database (gstore ingest)", store.ErrInvalid)
	}
	ids := make([]store.NodeID, len(keys))
	if err := st.LookupStrings(ctx, keys, ids); err != nil {
		return nil, err
	}
	for i, id := range ids {
		if id == store.NoNode {
			table, key, _ := strings.Cut(keys[i], ":")
			return nil, fmt.Errorf("train: targets of rows: %w: %s has no row %q of table %q, which row %d of the training table names; are keys and tables those that were ingested?",
				store.ErrInvalid, st.Dir(), key, table, i)
		}
		row, err := d.row(id)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// table maps a feature to the device.
func (d *data) table(dev gpu.Device, column int) (gpu.Tensor, func(), error) {
	c := &d.mb.Features[column]
	return nn.MapTable(dev, c.Name, c.Data, c.Rows(), c.Dim, c.Stride, c.Type, c.Scale)
}
