package training

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// targetsConfig is what the flags mean for targets of rows.
func (o *trainOptions) targetsConfig() (targets.Config, error) {
	c := o.targets
	if err := o.bound.Check(targetsTask); err != nil {
		return c, err
	}
	for _, name := range []string{"tensorboard", "explain", "overwrite"} {
		if o.bound.Has(name) {
			return c, command.Usagef("--%s is not for %s", name, targetsTask)
		}
	}
	if c.Targets == "" {
		return c, command.Usagef("--task targets: name the folder of a training table with --targets")
	}
	check := c
	check.Resume = false // its file may not be named yet
	if err := check.Normalize(); err != nil {
		return c, command.Usage(err)
	}
	return c, nil
}

// runTrainTargets trains and tests a model of targets of rows, prints and records the run.
func runTrainTargets(ctx context.Context, e *command.Env, st *store.Store, dir string, o *trainOptions) (err error) {
	cfg, err := o.targetsConfig()
	if err != nil {
		return err
	}
	unlock, err := checkpointFile(e, dir, lastTargetsRun, &cfg.CheckpointFile, cfg.Resume)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if err := checkSave(dir, o.save); err != nil {
		return err
	}
	log, err := openMetrics(metricsTo{o.metrics, o.board, keptFile(dir, lastTargetsRun, cfg.CheckpointFile)}, cfg.Resume)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	hooks := targetsHooks(e)
	start, kind := hooks.Start, ""
	hooks.Start = func(c targets.Config, s targets.Summary) {
		kind = s.Kind
		log.begin(dir, c)
		start(c, s)
	}
	hooks.Epoch = both(func(r targets.Epoch) { log.targets(kind, r) }, hooks.Epoch)
	hooks.Resume = func(found bool, epochs, step, batch int) {
		log.goOn(found, epochs)
		printResume(e, cfg.CheckpointFile, found, epochs, step, batch)
	}
	unasked := e.Unasked(st.Manifest(), 0, &cfg.MemoryBytes)
	started := time.Now()
	dev, err := command.OpenDevice(device.Options{Name: cfg.Device, Threads: cfg.Threads, MemoryBytes: cfg.DeviceMemoryBytes, MatMul: cfg.MatMul})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	cp, err := command.Within(e, unasked, &cfg.MemoryBytes, func() (*targets.Checkpoint, error) { return targets.Train(ctx, st, dev, cfg, hooks) })
	if err != nil {
		return err
	}
	s := &cp.Summary
	log.end(targetsEnd(s))
	saved, err := saveRun(ctx, dir, o.save, started, trained{cp.Version, cp.Config, s, s.EpochSeconds, s.Resumed, cp})
	log.keep(dir, saved)
	if err != nil {
		if saved.Path == "" {
			return err
		}
		fmt.Fprintf(e.Stderr, "gstore: %v\n", err)
	}
	if s.DivergedEpoch > 0 {
		return fmt.Errorf("the run diverged in epoch %d: the model is that of epoch %d (%s): use a smaller learning rate than %v", s.DivergedEpoch, s.BestEpoch, saved.Path, cp.Config.LR)
	}
	if e.JSON {
		summary := command.Fields(s)
		summary["model_file"] = saved.Path
		e.Event("summary", summary)
		return nil
	}
	printFinished(e, saved.Finished, len(s.EpochSeconds))
	part, score, constant, last := "test", s.Test, s.TestConstant, s.TestLast
	if score.Rows == 0 {
		fmt.Fprintln(e.Stdout, "no row of part test has a target: the model is not tested")
		part, score, constant, last = "validation", s.Valid, s.ValidConstant, s.ValidLast
	}
	fmt.Fprintln(e.Stdout, e.Strong(fmt.Sprintf("%s of %s, protocol %s, model of epoch %d: %s", part, s.Task, s.Protocol, s.BestEpoch, scoreText(s.Kind, score))))
	fmt.Fprint(e.Stdout, baselinesText(s.Kind, constant, last))
	fmt.Fprintf(e.Told(), "model: %s\n", saved.Path)
	fmt.Fprintf(e.Told(), "%d sampled rows were none later than what they were sampled for; %.1f s (%.1f CPU s), %s peak memory; %s, %s\n",
		s.CheckedRows, s.TotalSeconds, s.CPUSeconds, command.FormatSize(s.PeakRSSBytes), s.Device, s.IOEngine)
	return nil
}

// scoreText is a score of a kind of targets, for people.
func scoreText(kind string, s targets.Score) string {
	switch kind {
	case database.Recommendation:
		return fmt.Sprintf("MAP@k %.4f, recall@k %.4f of %d rows", s.MAP, s.Recall, s.Rows)
	case database.Multiclass:
		return fmt.Sprintf("accuracy %.4f, macro F1 %.4f of %d rows", s.Accuracy, s.MacroF1, s.Rows)
	case database.Multilabel:
		return fmt.Sprintf("average precision %.4f, micro F1 %.4f, macro F1 %.4f of %d rows", s.AP, s.MicroF1, s.MacroF1, s.Rows)
	case database.Binary:
		return fmt.Sprintf("ROC AUC %.4f, average precision %.4f of %d rows", s.AUC, s.AP, s.Rows)
	}
	return fmt.Sprintf("MAE %.4f, RMSE %.4f of %d rows", s.MAE, s.RMSE, s.Rows)
}

// baselinesText are the scores of what costs nothing, for people.
func baselinesText(kind string, constant, last targets.Score) string {
	return fmt.Sprintf("  always the same:           %s\n  the row's last target:     %s\n", scoreText(kind, constant), scoreText(kind, last))
}

// targetsHooks prints a line an epoch, or an event.
func targetsHooks(e *command.Env) targets.Hooks {
	if e.JSON {
		return targets.Hooks{
			Start: func(c targets.Config, s targets.Summary) {
				e.Event("start", map[string]any{"config": c, "task": s.Task, "kind": s.Kind, "protocol": s.Protocol, "train_rows": s.TrainRows})
			},
			Epoch: func(r targets.Epoch) { e.Event("epoch", command.Fields(r)) },
			Checkpoint: func(epochs, step, batch int) {
				e.Event("checkpoint", map[string]any{"epochs": epochs, "step": step, "batch": batch})
			},
		}
	}
	kind := ""
	return targets.Hooks{
		Start: func(c targets.Config, s targets.Summary) {
			kind = s.Kind
			if c.ReadsPast() {
				e.TellBeside("earlier targets of the same entities are read where their window has ended")
			}
			fmt.Fprintf(e.Told(), "%s (%s), protocol %s: %d rows train; validation, always the same: %s; the row's last target: %s\n",
				s.Task, s.Kind, s.Protocol, s.TrainRows, scoreText(kind, s.ValidConstant), scoreText(kind, s.ValidLast))
			e.TellBeside("%5s  %8s  %8s  %s", "epoch", "loss", "seconds", "validation")
		},
		Epoch: func(r targets.Epoch) {
			mark := ""
			if r.Best {
				mark = " *"
			}
			fmt.Fprintf(e.Told(), "%5d  %8.4f  %8.3f  %s\n", r.Epoch, r.Loss, r.Seconds, e.Best(scoreText(kind, r.Valid)+mark, r.Best))
		},
	}
}
