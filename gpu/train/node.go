package train

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/gpu/progress"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/feed"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/gpu/train/reach"
	"github.com/gstore/gstore/gpu/train/sparse"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/rows"
)

// Node trains a node classifier on a store by dev and returns its checkpoint: the
// best epoch's parameters with the configuration in full and the summary. ctx
// ends the run early, with its error. Store and device stay the caller's.
func Node(ctx context.Context, st *store.Store, dev gpu.Device, cfg config.Config, hooks Hooks) (*Checkpoint, error) {
	return node(ctx, st, dev, cfg, hooks, nil)
}

// node is Node whose layers a probe looks at; nil in a run that trains.
func node(ctx context.Context, st *store.Store, dev gpu.Device, cfg config.Config, hooks Hooks, look *probe) (_ *Checkpoint, err error) {
	o := &opening{st: st, dev: dev, m: st.Manifest(), cfg: &cfg, s: &session{cfg: &cfg, hooks: hooks, version: st.Manifest().Version, fs: st.Files().FS()}}
	defer func() { err = errors.Join(err, o.close()) }()
	for _, open := range []func(context.Context) error{o.plan, o.look, o.openStore, o.openHistory, o.openTrainer} {
		if err := open(ctx); err != nil {
			return nil, err
		}
	}
	s, t := o.s, o.s.t
	t.probe = look
	t.choose()
	if err := look.load(ctx, t); err != nil {
		return nil, err
	}
	if err := s.train(ctx, o.state, o.every); err != nil {
		return nil, err
	}
	s.sum.Seed, s.sum.Device, s.sum.IOEngine = cfg.Seed, dev.Info().String(), s.it.Stats().Engine
	if s.vectors != nil { // else no table was written, whatever cfg.Table names
		s.sum.Table = cfg.Table
	}
	params, err := t.model.Params().Save(ctx, t.queue)
	if err != nil {
		return nil, err
	}
	model, table := t.model.Config(), s.vectors.ref()
	if err := o.baselines(ctx, int64(len(params))); err != nil {
		return nil, err
	}
	return &Checkpoint{Version: o.m.Version, Config: cfg, Model: model, Summary: s.sum, ClassNames: o.m.Schema.ClassNames, VectorTable: table, Params: params}, nil
}

// opening makes the parts of a run, one after another.
type opening struct {
	st  *store.Store
	dev gpu.Device
	m   *store.Manifest
	cfg *config.Config
	s   *session

	state   []byte // of the model, where the run goes on; nil at its beginning
	every   progress.Interval
	planned *planning.Decision
	device  ondevice.Plan
	policy  macro.Policy
	it      planning.OpenBatches
	history history.Set
	sparse  *sparse.Table
	closers []func() error
}

// close closes the parts, the last one first. Closed ones stay so.
func (o *opening) close() (err error) {
	for _, f := range slices.Backward(o.closers) {
		err = errors.Join(err, f())
	}
	o.closers = nil
	return err
}

func (o *opening) closes(f func() error) { o.closers = append(o.closers, f) }

// plan says where the run stands and what it will do, and makes the evaluator.
func (o *opening) plan(ctx context.Context) (err error) {
	s, cfg := o.s, o.cfg
	if s.from, o.state, err = resumeNode(s.fs, cfg, o.m); err != nil {
		return err
	}
	if cs := s.from.Summary.Choices; len(cs) > 0 {
		cfg.Dense = cs[0].First == nn.AggregateFirst.String()
	}
	if o.every, err = progress.ParseInterval(cfg.CheckpointEvery); err != nil {
		return err
	}
	if _, err := config.ShapeOf(o.m, cfg); err != nil {
		return err
	}
	s.cpu = usage.CPUSeconds()
	if o.planned, err = planning.Decide(ctx, o.st, o.dev.Info(), *cfg); err != nil {
		return err
	}
	*cfg = o.planned.Config
	s.eval, err = o.planned.Evaluator(o.st, o.dev)
	if err = errors.Join(err, o.planned.Close()); err != nil { // what was counted is given back before training takes it
		return err
	}
	o.closes(s.eval.Close)
	if s.shape, err = config.ShapeOf(o.m, cfg); err != nil {
		return err
	}
	if err := s.shape.ScaleNumbers(ctx, o.st, cfg.Split); err != nil {
		return err
	}
	if err := cfg.Begin.Fit(o.m, &s.shape); err != nil {
		return err
	}
	budget.Begin(ctx, &o.planned.Account)
	o.device, err = planRows(ctx, o.st, o.dev, *cfg, &o.planned.Choice)
	cfg.Mixture = o.planned.Mixture
	return err
}

// look counts which training nodes have neighbours, of a run that begins: in the memory that macro-batches will have.
func (o *opening) look(ctx context.Context) error {
	s, cfg, a := o.s, o.cfg, &o.planned.Account
	if s.hooks.Neighbours == nil || o.state != nil || cfg.Kind().NodesAlone {
		return nil
	}
	of := reach.Options{Split: cfg.Split, Both: cfg.Relational()}
	if cfg.MemoryBytes > 0 {
		of.MemoryBytes = max(a.Of(planning.HoldsBuffer)+a.Of(planning.HoldsRows), 1)
	}
	seen, read, err := reach.Count(ctx, o.st, of)
	if err != nil {
		return err
	}
	s.from.Summary.Neighbours, s.looked = &seen, read
	return s.hooks.Neighbours(seen)
}

// openStore makes what reads macro-batches, and the table of learned vectors, if the run has one.
func (o *opening) openStore(ctx context.Context) (err error) {
	s, options := o.s, &o.planned.Options
	options.Pin = gpu.Pin(o.dev)
	if s.vectors, s.from, o.state, err = openVectors(ctx, o.st, o.cfg, s.from, o.state); err != nil {
		return err
	}
	o.closes(s.vectors.close)
	if v := s.vectors; v != nil {
		options.Table, o.planned.Vectors.Read = v.t, v.rows.Read
		ctx = context.WithoutCancel(ctx) // its rows are written to the table when ctx has ended, too: see run.Run
	}
	if o.it, o.policy, err = planning.OpenMacroBatches(ctx, o.st, o.cfg, &o.planned.Choice, *options); err != nil {
		return err
	}
	s.it = o.it
	o.closes(o.it.Close)
	if of := o.cfg.Sparse; of != nil {
		if o.sparse, err = sparse.Open(ctx, o.st, o.dev, o.cfg.SparseColumn(o.m), *of, o.cfg.Threads); err != nil {
			return err
		}
		o.closes(o.sparse.Close)
		s.looked += 2 * of.DenseBytes() // once to count its elements
	}
	if b, ok := s.it.(*buffer.Buffer); ok && s.vectors != nil {
		s.vectors.it = b
	}
	s.plan, s.passes = feed.Plans{Make: o.policy.Epoch}, feed.Passes{Replay: o.cfg.ReusePasses, Ready: s.it.NextReady}
	return nil
}

// openHistory makes what completes layers, where that is asked for.
func (o *opening) openHistory(ctx context.Context) error {
	if !o.cfg.History {
		return nil
	}
	of, err := history.OptionsOf(o.cfg, o.m, o.s.shape)
	if err != nil {
		return err
	}
	if o.history, err = history.NewSet(ctx, o.st, o.dev, o.s.eval, of); err != nil {
		return err
	}
	o.closes(o.history.Close)
	return nil
}

// openTrainer makes the trainer with its parts, and tells of the plan.
func (o *opening) openTrainer(ctx context.Context) (err error) {
	s, cfg, a := o.s, o.cfg, &o.planned.Account
	t, err := newTrainer(ctx, o.dev, cfg, s.shape, &o.device)
	if err != nil {
		return err
	}
	s.t = t
	o.closes(t.close)
	if err := o.begin(ctx); err != nil {
		return err
	}
	if cfg.MemoryBytes > 0 && !o.dev.Info().OwnMemory() {
		held := t.model.Params().Bytes() + o.it.MemoryBytes() // beside the program, with what the account has of others
		for _, who := range []string{planning.HoldsSparse, planning.HoldsSorted, planning.HoldsEval, planning.HoldsDevice, planning.HoldsDegrees, planning.HoldsCopy, planning.HoldsSampled} {
			held += a.Of(who)
		}
		if cfg.History {
			held += o.planned.History.BudgetBytes()
		}
		t.pipe.Bound(budget.Beside(cfg.MemoryBytes, held))
		// Sums of larger tiles might not fit another device.
		s.free = o.it.Close
		s.spare = a.Of(planning.HoldsEval) + a.Of(planning.HoldsBatch) + a.Of(planning.HoldsBuffer) + a.Of(planning.HoldsRows) - t.model.Params().Bytes()
	}
	if o.dev.Info().OwnMemory() {
		room, err := ondevice.DeviceRoom(cfg, ctx, o.dev.Info(), o.m, s.shape)
		if err != nil {
			return err
		}
		s.eval.KeepOnDevice(room) // feature rows take no more than that, so this is left beside mini-batches
	}
	o.tell()
	if t.history, t.sparse = o.history, o.sparse; o.sparse != nil {
		s.eval.MultiplySparse(o.sparse)
	}
	if t.model.ReadsDegrees() {
		t.degrees.of, t.degrees.partitions = s.eval.Degrees, len(o.m.Partitions)
	}
	if s.vectors != nil {
		t.vectors = s.vectors.resident
	}
	var upcoming func() []buffer.ResidentPartition
	switch it := s.it.(type) {
	case *rows.Reader:
		if t.feed, err = feed.NewFeeder(cfg, o.m, it); err != nil {
			return err
		}
		o.closes(t.feed.Close)
	case *buffer.Buffer: // plan rows is never mirrored
		upcoming = it.Upcoming
	}
	if cfg.LabelShift == config.ShiftAuto && s.shape.Numbers == nil && s.shape.Sets == nil {
		t.shift = feed.NewLabelShift(o.planned.Labels, o.planned.Nodes, s.shape.Classes)
	}
	if cfg.ClassWeights == config.WeightsAuto {
		labels, err := o.st.TrainingClasses(ctx, cfg.Split)
		if err != nil {
			return fmt.Errorf("train: class weights: %w", err)
		}
		t.weights = feed.NewClassWeights(labels, s.shape.Classes)
	}
	t.rows, err = ondevice.NewRows(o.dev, o.m, cfg, o.device, upcoming)
	return err
}

// begin has the model begin with another one's parameters, in a run that has not begun yet.
func (o *opening) begin(ctx context.Context) error {
	b := o.cfg.Begin
	switch {
	case o.state != nil:
		return nil
	case b == nil && o.cfg.From != "":
		return store.Invalid(fmt.Errorf("train: the run is to begin with %s, whose model is not there: Config.BeginWith takes it", o.cfg.From))
	case b == nil:
		return nil
	}
	if o.s.vectors != nil {
		return store.Invalid(errors.New("train: learned vectors that lie in a table of the store begin anew: beginning with another model is for --vectors memory"))
	}
	model := o.s.t.model.Config()
	params, err := model.Carry(&b.Model, b.Params)
	if err != nil {
		return store.Invalid(fmt.Errorf("train: the model to begin with has another shape: leave out options of the model, which are its own: %w", err))
	}
	return o.s.t.model.Params().Load(ctx, o.s.t.queue, params)
}

// tell calls the hooks that are told of a run before it begins.
func (o *opening) tell() {
	hooks := &o.s.hooks
	if why := o.s.from.fitted; hooks.Fitted != nil && why != "" {
		hooks.Fitted(why)
	}
	if hooks.Start != nil {
		hooks.Start(*o.cfg)
	}
	if hooks.Outlook != nil && o.planned.Outlook != nil {
		hooks.Outlook(*o.planned.Outlook)
	}
	if hooks.Plan != nil {
		hooks.Plan(o.why())
	}
}

// why says in sentences why the run is planned as it is.
func (o *opening) why() []string {
	why := append(o.planned.Why, o.device.Why...)
	if t := o.s.t; t.queue.Records() {
		model := t.model.Config()
		why = append(why, o.cfg.RecordWhy(&model))
	}
	return why
}

// planRows chooses what dev keeps of feature rows in a run whose plan is chosen.
func planRows(ctx context.Context, st *store.Store, dev gpu.Device, cfg config.Config, choice *macro.Choice) (ondevice.Plan, error) {
	cfg.Plan, cfg.Buffer = choice.Policy, choice.Capacity
	p, err := ondevice.Choose(&cfg, ctx, st, dev.Info(), 0)
	if err != nil {
		return p, fmt.Errorf("train: plan for %s: %w", dev.Info().Name, err)
	}
	return p, nil
}
