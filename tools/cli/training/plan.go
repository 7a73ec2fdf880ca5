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
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/history"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/gpu/train/planning"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// planOptions are train's, as far as they decide what is read, and what is plan's alone.
type planOptions struct {
	node    config.Config
	link    link.Config
	targets targets.Config
	bound   *command.Options

	task      string
	reuse     string
	epochs    int
	bounded   bool // --epochs was given
	steps     bool
	measure   time.Duration
	remeasure bool // --measure was given
	reads     readFlags
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
them runs the plan that is shown. Of --targets, which are trained with the graph in
memory, it shows the rows, who holds how much memory, and the smallest --mem that works.`,
		Example: `  gstore plan papers.gstore --mem 4GiB
  gstore plan kg.gstore --plan beta --buffer 8 --epochs 3 --steps
  gstore plan shop.gstore --targets shop-task`,
		Args: command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.remeasure = cmd.Flags().Changed("measure")
			o.bounded = cmd.Flags().Changed("epochs")
			if err := o.bound.Validate(); err != nil {
				return err
			}
			o.node.Given, o.link.Given = o.bound.Given(), o.bound.Given()
			return o.run(cmd.Context(), e, args[0])
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.task, "task", "auto", "auto (the store's), node, link, or targets of rows")
	f.IntVar(&o.epochs, "epochs", 2, "epochs to plan; the first begins with an empty buffer")
	f.BoolVar(&o.steps, "steps", false, "list every step")
	f.DurationVar(&o.measure, "measure", 300*time.Millisecond, "how long to measure the device: now if given, else where no figures of it are kept; 0 = estimate no seconds")
	o.bound = bindTasks(f, &o.node, &o.reuse, &o.link, nil, &o.targets)
	o.reads.flags(f)
	for name, group := range map[string]string{"task": "data", "version": "data", "epochs": "plan",
		"steps": "plan", "measure": "plan", "io-gap": "input and output,expert", "io-request": "input and output,expert", "io-depth": "input and output,expert"} {
		command.Group(f.Lookup(name), group)
	}
	command.Values(f.Lookup("task"), "auto", "node", "link", "targets")
	return cmd
}

// parseReuse reads --x reuse.
func parseReuse(s string) (int, error) {
	switch s {
	case "":
		return 0, nil
	case "auto":
		return macro.ReuseAuto, nil
	}
	if len(s) == 1 && s[0] >= '0' && s[0] <= '0'+macro.ReuseMax {
		return int(s[0] - '0'), nil
	}
	return 0, command.Usagef("--x reuse=%s: expected 0 to %d, or auto", s, macro.ReuseMax)
}

// check says what is wrong with the flags, and whether the task is to predict links.
func (o *planOptions) check(m *store.Manifest) (links bool, err error) {
	policy := cmp.Or(o.node.Plan, "auto")
	if o.node.Reuse, err = parseReuse(o.reuse); err != nil {
		return false, err
	}
	if policy != "auto" && !slices.Contains(macro.Names(), policy) {
		return false, command.Usagef("--plan %s: expected auto or one of %v", policy, macro.Names())
	}
	switch o.task {
	case "auto":
		links = m.Task() == store.TaskLink || policy == macro.Comet || policy == macro.Beta
	case "node", "link":
		links = o.task == "link"
	default:
		return false, command.Usagef("--task %s: expected auto, node, link or targets", o.task)
	}
	if o.epochs < 1 {
		return false, command.Usagef("--epochs %d: expected 1 or more", o.epochs)
	}
	if links {
		return true, o.bound.Check(linkTask)
	}
	if o.node.FallsOver() {
		o.node.Epochs = o.epochs // train is given a number, and here it is that of the plan
	}
	return false, o.bound.Check(nodeTask)
}

// linkConfig is train's for link prediction, with defaults.
func (o *planOptions) linkConfig() (link.Config, error) {
	c := o.link
	if err := setLinkModel(&c, c.Model); err != nil {
		return c, err
	}
	if err := c.Normalize(); err != nil {
		return c, command.Usage(err)
	}
	return c, nil
}

// planned is what gpu/train or gpu/link decided.
type planned struct {
	choice  macro.Choice
	options buffer.Options
	why     []string
	policy  macro.Policy
	f       *buffer.Forecaster
	outlook *planning.Outlook
	history *history.Cost
	train   []uint64     // training nodes by partition
	memory  int64        // the partition buffer's share of the budget; 0: no bound
	close   func() error // the forecaster
}

// decide asks what training would do.
func (o *planOptions) decide(ctx context.Context, e *command.Env, s *store.Store, links bool) (p planned, err error) {
	info, err := device.Unasked()
	if err != nil {
		return p, err
	}
	if links {
		done, err := beginLinkWith(ctx, e, s, &o.link)
		if err != nil {
			return p, err
		}
		defer func() { err = errors.Join(err, done()) }()
		c, err := o.linkConfig()
		if err != nil {
			return p, err
		}
		if err := checkColumns(s.Manifest(), c.Features, ""); err != nil {
			return p, err
		}
		d, err := link.Decide(ctx, s, info, c)
		if err != nil {
			return p, err
		}
		return planned{choice: d.Choice, options: d.Options, why: d.Why, policy: d.Policy, f: d.Forecaster(), memory: d.Options.MemoryBytes, close: d.Close}, nil
	}
	if err := checkColumns(s.Manifest(), o.node.Features, o.node.Split); err != nil {
		return p, err
	}
	if err := beginWith(ctx, e, s, &o.node); err != nil {
		return p, err
	}
	o.node.Model = cmp.Or(o.node.Model, config.ModelAuto)
	why := o.node.Fit(s.Manifest())
	if err := o.node.Normalize(); err != nil {
		return p, command.Usage(err)
	}
	d, err := planning.Decide(ctx, s, info, o.node)
	if err != nil {
		return p, err
	}
	o.node = d.Config
	if why != "" {
		d.Why = append([]string{why}, d.Why...)
	}
	p = planned{choice: d.Choice, options: d.Options, why: d.Why, f: d.Forecaster(), outlook: d.Outlook, history: d.History, train: d.Trained, memory: d.Options.MemoryBytes, close: d.Close}
	if p.policy, err = macro.New(d.Choice.Config); err != nil {
		return p, errors.Join(command.Usage(err), d.Close())
	}
	return p, nil
}

func (o *planOptions) run(ctx context.Context, e *command.Env, dir string) (err error) {
	s, err := o.reads.open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	m := s.Manifest()
	if o.targets.Targets != "" || o.task == "targets" {
		return o.planTargets(ctx, e, s)
	}
	links, err := o.check(m)
	if err != nil {
		return err
	}
	if o.task == "auto" && learnsMoments(m) && !e.JSON && !e.Quiet {
		fmt.Fprintln(e.Stderr, "the store has no labels, and no lists of edges to predict: gstore train learns where a node's next edge leads (--task temporal), with the times in memory and by no plan; this one is what --task node would have")
	}
	unasked, bytes := false, &o.node.MemoryBytes
	if links {
		bytes = &o.link.MemoryBytes
		unasked = unaskedLink(e, m, &o.link)
	} else {
		unasked = unaskedNode(e, m, &o.node)
	}
	// Measured first: the forecast goes by the same figures.
	var device *blockio.Calibration
	if o.measure > 0 {
		device = o.device(ctx, s)
	}
	p, err := command.Within(e, unasked, bytes, func() (planned, error) { return o.decide(ctx, e, s, links) })
	switch {
	case errors.Is(err, macro.ErrPlan):
		return command.Usage(err)
	case err != nil:
		return planError(err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	plans := make([]buffer.Plan, o.epochs)
	for k := range plans {
		plans[k] = p.policy.Epoch(k)
	}
	r := planReport{e: e, o: o, m: m, planned: p, plans: plans, device: device}
	if p.choice.Policy == macro.Rows {
		err = r.sampleRows(ctx, s, p.options)
	} else {
		r.buffer, r.epochs, err = p.f.Epochs(p.choice.Capacity, p.choice.Swap(), p.memory, plans...)
	}
	if err != nil {
		return err
	}
	if o.node.DeviceMemoryBytes > 0 {
		d, err := o.planDevice(ctx, s, p.choice)
		if err != nil {
			return err
		}
		r.deviceRows, r.why = &d, append(r.why, d.Why...)
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
	p, err := ondevice.Choose(&c, ctx, s, info, 0)
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
