package training

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
)

// linkConfig is what the flags mean for link prediction.
func (o *trainOptions) linkConfig() (link.Config, error) {
	if err := setLinkModel(&o.link, o.link.Model); err != nil {
		return o.link, err
	}
	c := o.link
	if err := o.bound.Check(linkTask); err != nil {
		return c, err
	}
	check := c
	if c.Resume {
		check.Given = nil // what a given option needs may be what the run began with
	}
	if err := check.Normalize(); err != nil {
		return c, command.Usage(err)
	}
	return c, nil
}

// setLinkModel sets what --model means for link prediction: a decoder, or an encoder beside the default one. Another encoder beside that
// is a mistake.
func setLinkModel(c *link.Config, model string) error {
	c.Model = model
	if model == "none" || !slices.Contains(nn.Encoders(), model) {
		return nil
	}
	c.Model = nn.DistMult
	if c.Encoder == "" {
		c.Encoder = model
	}
	if c.Encoder != model {
		return command.Usagef("--model %s and --encoder %s: of links both name the encoder, and expected is one: leave one of them out, or name a decoder with --model %s", model, c.Encoder, nn.DistMult)
	}
	return nil
}

// runTrainLink trains embeddings, prints and records the run.
func runTrainLink(ctx context.Context, e *command.Env, st *store.Store, o *trainOptions) (err error) {
	done, err := beginLinkWith(ctx, e, st, &o.link)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	cfg, err := o.linkConfig()
	if err != nil {
		return err
	}
	if err := checkColumns(st.Manifest(), cfg.Features, ""); err != nil {
		return err
	}
	if err := cfg.CheckStore(st.Manifest()); err != nil {
		return command.Usage(err)
	}
	if cfg.EvalEvery >= 0 {
		if !st.Manifest().Lists("valid") {
			return command.Usagef("%s has no edge list valid to rank, or one without edges: ingest it anew with one, or with --split-random 90/5/5, or train without ranks, with --eval-every -1", st.Dir())
		}
	}
	if !cfg.Resume && !o.overwrite {
		if err := checkTable(ctx, st, cmp.Or(cfg.Table, "embeddings")); err != nil {
			return err
		}
	}
	if o.save != "" {
		return command.Usagef("--save: embeddings stay in the store, as table %s: write them to files with gstore export --what embeddings", cmp.Or(cfg.Table, "embeddings"))
	}
	unasked := unaskedLink(e, st.Manifest(), &cfg)
	started := time.Now()
	hooks := linkHooks(e)
	log, err := openMetrics(metricsTo{o.metrics, o.board, keptTable(st.Dir(), cmp.Or(cfg.Table, "embeddings"))}, cfg.Resume)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.close()) }()
	hooks.Macro, hooks.Epoch = log.epochRows, both(log.link, hooks.Epoch)
	start := hooks.Start
	hooks.Start = func(c link.Config, why []string) {
		log.begin(st.Dir(), c)
		if len(c.Rates) == 0 {
			log.parameters(c)
		}
		start(c, why)
	}
	hooks.Resume = func(found bool, epochs, step, batch int) {
		log.goOn(found, epochs)
		printResume(e, "table "+cmp.Or(cfg.Table, "embeddings"), found, epochs, step, batch)
	}
	hooks.Rewind = func(c link.Config, epochs int) { log.again(st.Dir(), c, epochs) }
	rate := hooks.Rate
	hooks.Rate = func(c link.Config, epochs int, tried []link.TriedRate) {
		log.parameters(c)
		rate(c, epochs, tried)
	}
	defer showLink(e, st.Manifest(), &hooks)()
	dev, err := command.OpenDevice(device.Options{Name: cfg.Device, Threads: cfg.Threads, MemoryBytes: cfg.DeviceMemoryBytes, MatMul: cfg.MatMul})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	r, err := command.Within(e, unasked, &cfg.MemoryBytes, func() (*link.Result, error) { return link.Train(ctx, st, dev, cfg, hooks) })
	if err != nil {
		return planError(err)
	}
	s := &r.Summary
	tested := st.Manifest().Lists("test")
	if r.Config.EvalEvery > 0 {
		end := metrics.End{ValidMRR: metrics.Number(s.ValidMRR)}
		if tested {
			end.TestMRR, end.TestHits10 = metrics.Number(s.TestMRR), metrics.Number(s.TestHits10)
		}
		log.end(end)
	}
	summary := linkSummary(r, tested)
	n, finished, err := recordTrain(ctx, st.Dir(), store.Run{Version: r.Version, Started: started}, r.Config, summary, s.EpochSeconds, s.Resumed)
	if err != nil {
		fmt.Fprintf(e.Stderr, "gstore: the run is not recorded: %v\n", err)
	}
	saved := savedRun{Number: n}
	if finished {
		saved.Finished = n
	}
	log.keep(st.Dir(), saved)
	if e.JSON {
		if finished {
			summary["finished_run"] = saved.Finished
		}
		e.Event("summary", summary)
		return nil
	}
	printFinished(e, saved.Finished, len(s.EpochSeconds))
	if r.Config.EvalEvery > 0 && !tested {
		e.TellResult("valid MRR %.4f (the store has no edge list test)", s.ValidMRR)
	} else if r.Config.EvalEvery > 0 {
		against := "filtered, against all nodes that may be answers"
		if s.Given {
			against = "against the data set's own negatives"
		}
		if s.Shared != nil {
			against = fmt.Sprintf("@20 %.4f, @50 %.4f, @100 %.4f; against the negatives that all edges share", s.Shared.Hits20, s.Shared.Hits50, s.Shared.Hits100)
		}
		e.TellResult("test MRR %.4f, hits@1 %.4f, @3 %.4f, @10 %.4f (%s); valid MRR %.4f", s.TestMRR, s.TestHits1, s.TestHits3, s.TestHits10, against, s.ValidMRR)
	}
	e.TellBeside("%.1f s (%.1f CPU s), %s peak memory, %s read; plan %s, %s, %s",
		s.TotalSeconds, s.CPUSeconds, command.FormatSize(s.PeakRSSBytes), command.FormatSize(s.BytesRead), s.Plan, s.Device, s.IOEngine)
	printProfile(e, s.Profile)
	printDeviceRows(e, s.DeviceRows)
	what := "embeddings"
	if r.Config.NoEmbeddings {
		what = "model"
	}
	fmt.Fprintf(e.Told(), "%s: table %s of the store; %s written, %d checkpoints (%s)\n", what, s.Table, command.FormatSize(s.BytesWritten), s.Checkpoints, command.FormatSize(s.CheckpointBytes))
	return nil
}

// checkTable refuses to train where an earlier run's embeddings would be lost.
func checkTable(ctx context.Context, st *store.Store, name string) error {
	t, err := table.Open(ctx, st, table.Options{Name: name})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: --overwrite begins anew", err)
	}
	c, err := link.Load(ctx, t)
	if err = errors.Join(err, t.Close()); err != nil {
		return fmt.Errorf("table %s: %w: --overwrite begins anew", name, err)
	}
	return command.Usagef("table %s holds the embeddings of an earlier run, %d of %d epochs: --overwrite replaces them, --table NAME keeps both, --resume goes on with them",
		name, c.Epochs, c.Config.Epochs)
}

// linkSummary is a run's summary, without the ranks that were not computed: 0 would be a result. Tested says that the store has edges to test with.
func linkSummary(r *link.Result, tested bool) map[string]any {
	f := command.Fields(&r.Summary)
	maps.DeleteFunc(f, func(name string, _ any) bool {
		ranks := strings.HasPrefix(name, "test_") || strings.HasPrefix(name, "valid_")
		return ranks && r.Config.EvalEvery < 0 || !tested && strings.HasPrefix(name, "test_")
	})
	return f
}

// linkHooks prints a line an epoch, or an event.
func linkHooks(e *command.Env) link.Hooks {
	if e.JSON {
		return link.Hooks{
			Start: func(c link.Config, why []string) { e.Event("start", map[string]any{"config": c, "why": why}) },
			Epoch: func(r link.Epoch) { e.Event("epoch", command.Fields(r)) },
			Checkpoint: func(number uint64, epochs, step, batch int) {
				e.Event("checkpoint", map[string]any{"number": number, "epochs": epochs, "step": step, "batch": batch})
			},
			Rate: func(c link.Config, epochs int, tried []link.TriedRate) {
				e.Event("rate", map[string]any{"lr": c.LR, "epochs": epochs, "tried": tried})
			},
			Back: func(best, epochs int) { e.Event("back", map[string]any{"best_epoch": best, "epochs": epochs}) },
		}
	}
	return link.Hooks{
		Start: func(c link.Config, why []string) {
			fmt.Fprintf(e.Told(), "plan %s: %s\n", c.Plan, strings.Join(why, "; "))
			e.TellBeside("%5s  %8s  %9s  %7s  %8s  %8s  %10s", "epoch", "loss", "valid MRR", "hits@10", "seconds", "CPU s", "read")
		},
		Epoch: func(r link.Epoch) {
			mrr, hits := "", ""
			if r.Valid != nil {
				mrr, hits = fmt.Sprintf("%.4f", r.Valid.MRR), fmt.Sprintf("%.4f", r.Valid.Hits10)
			}
			fmt.Fprintf(e.Told(), "%5d  %8.4f  %9s  %7s  %8.3f  %8.3f  %10s\n", r.Epoch, r.Loss, mrr, hits, r.Seconds, r.CPUSeconds, command.FormatSize(r.BytesRead))
		},
		Rate: func(c link.Config, epochs int, tried []link.TriedRate) {
			var words []string
			for _, r := range tried {
				words = append(words, fmt.Sprintf("%.4f with %v", r.ValidMRR, r.LR))
			}
			from := "from the beginning"
			if epochs > 0 {
				from = fmt.Sprintf("from epoch %d", epochs)
			}
			fmt.Fprintf(e.Told(), "learning rate %v: validation MRR was %s; on %s\n", c.LR, strings.Join(words, ", "), from)
		},
		Back: func(best, epochs int) {
			if best == epochs {
				fmt.Fprintf(e.Told(), "validation is not improving since epoch %d: its model is the result\n", best)
				return
			}
			fmt.Fprintf(e.Told(), "validation is not improving since epoch %d: back to it, and on to epoch %d with a falling learning rate\n", best, epochs)
		},
	}
}
