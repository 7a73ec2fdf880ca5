package training

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gstore/gstore/blocks/usage"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// evalTargets scores a model of targets of rows on a training table.
func evalTargets(ctx context.Context, e *command.Env, st *store.Store, path, which string, unasked bool, o *evalOptions) (err error) {
	o.flags.Visit(func(f *pflag.Flag) {
		if err == nil && command.GroupOf(f) == nodeFlags && !slices.Contains([]string{"splits", "targets"}, f.Name) {
			err = command.Usagef("--%s is not for models of targets of rows, which %s is", f.Name, path)
		}
	})
	if err != nil {
		return err
	}
	cp, err := targets.LoadFile(path)
	if err != nil {
		return err
	}
	start := time.Now()
	dev, err := command.OpenDevice(device.Options{Name: o.device, Threads: o.threads, MemoryBytes: int64(o.deviceMem)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	done := e.Working("answering")
	list, err := command.Within(e, unasked, (*int64)(&o.mem), func() ([]targets.Tested, error) {
		cfg := cp.Config
		cfg.Threads, cfg.MemoryBytes, cfg.Resume = o.threads, int64(o.mem), false
		return targets.Test(ctx, st, dev, cp, cfg, o.targets, o.splits)
	})
	done()
	if o.targets == "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the training table that %s was trained on, %s, is not there: --targets names its folder: %w", path, cp.Config.Targets, err)
	}
	if err != nil {
		return err
	}
	f := map[string]any{"model_file": path, "task": cp.Task.Name, "kind": cp.Task.Kind, "seconds": time.Since(start).Seconds(), "cpu_seconds": usage.CPUSeconds(), "peak_rss_bytes": usage.PeakRSSBytes()}
	for _, x := range list {
		f[x.Part], f[x.Part+"_constant"], f[x.Part+"_last"] = x.Score, x.Constant, x.Last
	}
	e.Event("summary", f)
	if e.JSON {
		return nil
	}
	if len(list) == 0 {
		fmt.Fprintf(e.Stdout, "no row of part %s has a target\n", strings.Join(o.splits, " or "))
	}
	fmt.Fprintf(e.Told(), "%s, version %d; model: %s\n", cp.Task.Name, st.Manifest().Version, which)
	for _, x := range list {
		fmt.Fprintf(e.Stdout, "%s: %s\n%s", x.Part, scoreText(cp.Task.Kind, x.Score), baselinesText(cp.Task.Kind, x.Constant, x.Last))
	}
	return nil
}
