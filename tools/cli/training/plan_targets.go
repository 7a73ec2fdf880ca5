package training

import (
	"context"
	"errors"
	"fmt"

	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// planTargets shows what a run of targets of rows would train and hold.
func (o *planOptions) planTargets(ctx context.Context, e *command.Env, s *store.Store) error {
	c := o.targets
	if err := o.bound.Check(targetsTask); err != nil {
		return err
	}
	for name, given := range map[string]bool{"steps": o.steps, "epochs": o.bounded, "measure": o.remeasure} {
		if given {
			return command.Usagef("--%s is for plans of several steps; %s are trained with the graph in memory", name, targetsTask)
		}
	}
	if c.Targets == "" {
		return command.Usagef("--task targets: name the folder of a training table with --targets")
	}
	info, err := device.Unasked()
	if err != nil {
		return err
	}
	p, err := targets.Plan(ctx, s, info, c)
	if err != nil && (!errors.Is(err, store.ErrBudget) || p.LeastBytes == 0) {
		return err
	}
	fields := command.Fields(p)
	fields["plan"], fields["fits"] = "memory", err == nil
	e.Event("summary", fields)
	if e.JSON {
		return err
	}
	epochs := "until validation does not improve"
	if p.Epochs > 0 {
		epochs = fmt.Sprintf("%d epochs", p.Epochs)
	}
	fmt.Fprintf(e.Stdout, "%s (%s) of table %s, protocol %s: %d rows train, %d validate, %d test\n", p.Task, p.Kind, p.Table, p.Protocol, p.TrainRows, p.ValidRows, p.TestRows)
	fmt.Fprintf(e.Stdout, "up to %d mini-batches of %d an epoch; %s\n", p.Batches, p.BatchSize, epochs)
	fmt.Fprintln(e.Stdout, "the graph is read once, and stays in memory with the features:")
	for _, h := range p.Memory.Holders {
		if h.Bytes > 0 {
			fmt.Fprintf(e.Stdout, "  %-24s %12s\n", h.Name, command.FormatSize(h.Bytes))
		}
	}
	fmt.Fprintf(e.Stdout, "the smallest --mem that works is %dMiB\n", p.LeastBytes>>20)
	return err
}
