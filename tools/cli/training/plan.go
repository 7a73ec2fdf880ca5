package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/budget"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// planOptions are train's, as far as they decide what is read, and what is plan's alone.
type planOptions struct {
	node   train.Config
	link   link.Config
	bound  *command.Options
	absent []string // what train does for absent neighbours, and why

	task        string
	bucketOrder string
	reuse       string
	epochs      int
	bounded     bool // --epochs was given
	both        bool
	steps       bool
	measure     time.Duration
	remeasure   bool // --measure was given
	reads       readFlags
}

// NewPlan is the command gstore plan.
func NewPlan(e *command.Env) *cobra.Command {
	var o planOptions
	cmd := &cobra.Command{
		Use:   "plan STORE",
		Short: "Show what a plan would read and train, its bias, bytes and steps, before running it",
		Long: `Show what training would read, step by step, without reading it: which policy and
capacity the memory budget allows and why, bytes and requests of each epoch
(exactly those that train will make), the edge permutation bias of link tasks, what
absent neighbours and steps of other classes are expected to cost, and how many
partitions a fresh ingest had better make. With --device-mem it samples the first
mini-batches and shows what feature rows cost between host and GPU by what the GPU
keeps of them. The flags that train has too mean the same, but --epochs: train with
them runs the plan that is shown.`,
		Example: `  gstore plan papers.gstore --mem 4GiB
  gstore plan kg.gstore --plan beta --buffer 8 --epochs 3 --steps`,
		Args: command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.remeasure = cmd.Flags().Changed("measure")
			o.bounded = cmd.Flags().Changed("epochs")
			if err := o.bound.Validate(); err != nil {
				return err
			}
			return o.run(cmd.Context(), e, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.task, "task", "auto", "auto (the store's), node or link")
	f.StringVar(&o.bucketOrder, "bucket-order", "balanced", "comet: balanced, or random as published")
	f.StringVar(&o.reuse, "reuse", "0", "hanoi: extra passes over each macro-batch, 0 to 4, or auto")
	f.IntVar(&o.epochs, "epochs", 2, "epochs to plan; the first begins with an empty buffer")
	f.BoolVar(&o.both, "both", false, "both directions of the edges, as link models sample")
	f.BoolVar(&o.steps, "steps", false, "list every step")
	f.DurationVar(&o.measure, "measure", 300*time.Millisecond, "how long to measure the device: now if given, else where no figures of it are kept; 0 = estimate no seconds")
	o.bound = bindTasks(f, &o.node, &o.link, nil)
	o.reads.flags(f)
	for name, group := range map[string]string{"task": "data", "version": "data", "bucket-order": "out of core,expert", "reuse": "out of core,expert", "epochs": "plan", "both": "plan",
		"steps": "plan", "measure": "plan", "io-gap": "input and output,expert", "io-request": "input and output,expert", "io-depth": "input and output,expert"} {
		command.Group(f.Lookup(name), group)
	}
	command.Values(f.Lookup("task"), "auto", "node", "link")
	command.Values(f.Lookup("bucket-order"), "balanced", "random")
	command.Alias(f, "order", "bucket-order")
	return cmd
}

// parseReuse reads --reuse.
func parseReuse(s string) (int, error) {
	if s == "auto" {
		return macro.ReuseAuto, nil
	}
	if len(s) == 1 && s[0] >= '0' && s[0] <= '0'+macro.ReuseMax {
		return int(s[0] - '0'), nil
	}
	return 0, command.Usagef("--reuse %s: expected 0 to %d, or auto", s, macro.ReuseMax)
}

// config turns flags and store into what was fixed by the caller.
func (o *planOptions) config(m *store.Manifest) (macro.Config, error) {
	n := &o.node
	c := macro.Config{Policy: cmp.Or(n.Plan, "auto"), Partitions: len(m.Partitions), Capacity: n.Buffer, Undirected: m.Schema.Undirected,
		Logical: o.link.Logical, Seed: n.Seed}
	var err error
	if c.Reuse, err = parseReuse(o.reuse); err != nil {
		return c, err
	}
	switch o.bucketOrder {
	case "balanced":
	case "random":
		c.Order = macro.Random
	default:
		return c, command.Usagef("--bucket-order %s: expected balanced or random", o.bucketOrder)
	}
	if c.Policy != "auto" && !slices.Contains(macro.Names(), c.Policy) {
		return c, command.Usagef("--plan %s: expected auto or one of %v", c.Policy, macro.Names())
	}
	switch o.task {
	case "auto":
		c.Link = m.Task() == store.TaskLink || c.Policy == macro.Comet || c.Policy == macro.Beta
	case "node", "link":
		c.Link = o.task == "link"
	default:
		return c, command.Usagef("--task %s: expected auto, node or link", o.task)
	}
	task := linkTask
	if !c.Link {
		task, c.Pinned = nodeTask, m.Pinned
	}
	if o.epochs < 1 {
		return c, command.Usagef("--epochs %d: expected 1 or more", o.epochs)
	}
	return c, o.bound.Check(task)
}

// memory says who holds what of a run: [train.Memory] or [link.Memory].
type memory interface {
	BesideBytes(memory int64) func(capacity int) int64
	Account(memory int64) (budget.Account, error)
	Forecaster() *buffer.Forecaster
	Close() error
}

// linkConfig is train's for link prediction, with defaults.
func (o *planOptions) linkConfig() (link.Config, error) {
	c := o.link
	setLinkModel(&c, c.Model)
	if err := c.Normalize(); err != nil {
		return c, command.Usage(err)
	}
	return c, nil
}

// macroOptions are those with which train would run, and who holds what then: MemoryBytes is the partition buffer's share of --mem.
func (o *planOptions) macroOptions(ctx context.Context, s *store.Store, cfg *macro.Config) (mo buffer.Options, y memory, err error) {
	m := s.Manifest()
	dev, err := device.Open(device.Options{Threads: 1})
	if err != nil {
		return mo, nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	if cfg.Link {
		c, err := o.linkConfig()
		if err != nil {
			return mo, nil, err
		}
		if c.Logical > 0 {
			if err := checkLogical(c.Plan); err != nil {
				return mo, nil, err
			}
		}
		if o.bucketOrder != "balanced" && c.Plan != macro.Comet && c.Plan != "auto" {
			return mo, nil, command.Usagef("--bucket-order is for plan comet, this is %s", c.Plan)
		}
		if why := c.AbsentWhy(m); why != "" {
			o.absent = []string{why}
		}
		mo = c.MacroOptions(m)
		mo.Both = mo.Both || o.both
		l, err := link.OpenMemory(ctx, s, dev.Info(), c)
		return mo, l, err
	}
	c := &o.node
	if err := c.Normalize(); err != nil {
		return mo, nil, command.Usage(err)
	}
	c.FillFeatures(m)
	n, why, err := train.OpenCompleted(ctx, s, dev.Info(), c)
	if err != nil {
		return mo, nil, err
	}
	o.absent = why
	if why := c.UnusedWeights(m); why != "" {
		o.absent = append(o.absent, why)
	}
	mo = c.MacroOptions(m)
	mo.Both = mo.Both || o.both
	return mo, n, nil
}

func (o *planOptions) run(ctx context.Context, e *command.Env, dir string) (err error) {
	s, err := o.reads.open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := s.Manifest()
	cfg, err := o.config(m)
	if err != nil {
		return err
	}
	// Measured first: the forecast goes by the same figures.
	var device *blockio.Calibration
	if o.measure > 0 {
		device = o.device(ctx, s)
	}
	mo, y, err := o.macroOptions(ctx, s, &cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, y.Close()) }()
	if !cfg.Link {
		o.node.Staged(m, &cfg)
	}
	var account budget.Account
	if o.node.MemoryBytes > 0 {
		if account, err = y.Account(o.node.MemoryBytes); err != nil {
			return planError(err)
		}
	}
	f := y.Forecaster()
	if o.both { // more than train reads
		if f, err = buffer.OpenForecaster(ctx, s, mo); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
	}
	trained, err := s.TrainingNodes(ctx, o.node.Split)
	if errors.Is(err, store.ErrNotFound) && o.node.Split == "" {
		trained = nil // nothing is known of what would train
	} else if err != nil {
		return err
	}
	beside := y.BesideBytes(o.node.MemoryBytes)
	var rows *macro.RowsTuning
	if n, ok := y.(*train.Memory); ok {
		if rows, err = n.RowsTuning(o.node.MemoryBytes); err != nil {
			return err
		}
	}
	choice, err := macro.Choose(macro.Tuning{Config: cfg, MemoryBytes: mo.MemoryBytes, LeastBytes: f.LeastBytes, DoubleBytes: f.DoubleBytes, BesideBytes: beside, Rows: rows,
		Hubs: m.HubsWhy(), Train: trained})
	switch {
	case errors.Is(err, macro.ErrPlan):
		return command.Usage(err)
	case errors.Is(err, store.ErrBudget):
		return fmt.Errorf("of %s of memory the partition buffer may have %s: %w", command.FormatSize(o.node.MemoryBytes), command.FormatSize(mo.MemoryBytes), err)
	case err != nil:
		return err
	}
	var outlook *train.Outlook
	if n, ok := y.(*train.Memory); ok && trained != nil {
		if _, outlook, err = n.Mix(ctx, &choice); err != nil {
			return err
		}
	}
	policy, err := macro.New(choice.Config)
	if err != nil {
		return command.Usage(err)
	}
	plans := make([]buffer.Plan, o.epochs)
	for k := range plans {
		plans[k] = policy.Epoch(k)
	}
	if o.node.MemoryBytes > 0 {
		mo.MemoryBytes -= beside(choice.Capacity)
		choice.Why = slices.Insert(choice.Why, 0, fmt.Sprintf("of %s of memory the partition buffer may have %s", command.FormatSize(o.node.MemoryBytes), command.FormatSize(mo.MemoryBytes)), "memory: "+account.String())
	}
	if !cfg.Link || choice.Policy != macro.Memory {
		choice.Why = append(choice.Why, o.absent...)
	}
	if cfg.Link {
		c, err := o.linkConfig()
		if err != nil {
			return err
		}
		if why := c.HiddenWhy(m, &choice); why != "" {
			choice.Why = append(choice.Why, why)
		}
	}
	r := planReport{e: e, o: o, m: m, memory: mo.MemoryBytes, choice: choice, plans: plans, train: trained, f: f, device: device, outlook: outlook}
	if choice.Policy == macro.Rows {
		err = r.sampleRows(ctx, s, mo)
	} else {
		r.buffer, r.epochs, err = f.Epochs(choice.Capacity, choice.Swap(), mo.MemoryBytes, plans...)
	}
	if err != nil {
		return err
	}
	if o.node.DeviceMemoryBytes > 0 {
		p, err := o.planDevice(ctx, s, choice)
		if err != nil {
			return err
		}
		r.deviceRows, r.choice.Why = &p, append(r.choice.Why, p.Why...)
	}
	if o.node.History {
		c, err := o.node.HistoryCost(m, trained, choice.Resident(), len(plans[0].Steps))
		if err != nil {
			return err
		}
		r.history = &c
	}
	if err := r.advise(); err != nil {
		return err
	}
	return r.print()
}

// planDevice is which rows a device of --device-mem keeps in a run whose plan is chosen.
func (o *planOptions) planDevice(ctx context.Context, s *store.Store, choice macro.Choice) (macro.DevicePlan, error) {
	info := gpu.Info{Name: "gpu", MemoryBytes: o.node.DeviceMemoryBytes, Samples: true}
	if choice.Link {
		c, err := o.linkConfig()
		if err != nil {
			return macro.DevicePlan{}, err
		}
		c.Plan, c.Buffer, c.Logical = choice.Policy, choice.Capacity, choice.Logical
		return c.PlanDevice(ctx, s, info, 0)
	}
	c := o.node
	c.Plan, c.Buffer = choice.Policy, choice.Capacity
	p, err := c.PlanDevice(ctx, s, info, 0)
	return p.DevicePlan, err
}

// device returns the figures of the store's device, measured now where none are kept or
// --measure asks for it; nil if its files are too small or cannot be read
// directly, for which a plan's figures do without.
func (o *planOptions) device(ctx context.Context, s *store.Store) *blockio.Calibration {
	c, _, err := s.Files().Calibration(ctx, o.node.IOEngine, store.CalibrationOptions{Duration: o.measure, Refresh: o.remeasure})
	if err != nil || !c.Measured {
		return nil
	}
	return &c
}
