package training

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/run"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/models"
)

// checkSave finds before training whether the model can be saved: in the file that --save names, or with the store.
func checkSave(dir, path string) error {
	if path != "" {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return command.Usagef("--save %s: it is a folder, expected a file for the model", path)
		}
		if err := tryWrite(filepath.Dir(path)); err != nil {
			return fmt.Errorf("--save %s: the model could not be saved there: %w", path, err)
		}
		return nil
	}
	err := makeRuns(dir)
	if err == nil {
		err = tryWrite(filepath.Join(dir, runsDir))
	}
	if err != nil {
		return fmt.Errorf("the model could not be saved with the store: %w: name a file for it with --save", err)
	}
	return nil
}

// makeRuns makes the store's folder of models and checkpoints, and its name durable: a file in a folder that a crash
// takes away would be lost with it.
func makeRuns(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, runsDir), 0o777); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// tryWrite makes a file in dir and removes it.
func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".gstore-save-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// savedRun is where a run's model lies.
type savedRun struct {
	Path     string
	Number   uint64 // the run's; 0: it is not recorded
	Finished uint64 // its number, if it had finished before
}

// trained is a run that is to be saved.
type trained struct {
	version         uint64 // of the store
	config, summary any
	epochSeconds    []float64
	resumed         bool
	model           interface{ SaveFile(path string) error }
}

// saveRun records the run in the store's history and saves the model, by default as [models.File]. A model is saved even if
// the run cannot be recorded: where path names it, or beside the numbered ones; then the result has a path and an error.
func saveRun(ctx context.Context, dir, path string, started time.Time, t trained) (r savedRun, err error) {
	n, again, recorded := recordTrain(ctx, dir, store.Run{Version: t.version, Started: started, Model: path == ""}, t.config, t.summary, t.epochSeconds, t.resumed)
	if recorded != nil {
		recorded = fmt.Errorf("the run is not recorded: %w", recorded)
	}
	if r.Number = n; again {
		r.Finished = n
	}
	switch {
	case path != "":
	case recorded == nil:
		path = models.File(dir, n)
	default:
		path = filepath.Join(dir, runsDir, "unrecorded-"+started.UTC().Format("20060102T150405")+".gsm")
	}
	if err := t.model.SaveFile(path); err != nil {
		return r, errors.Join(recorded, fmt.Errorf("the model is not saved: %w", err))
	}
	r.Path = path
	return r, recorded
}

// printSummary is for people what the summary event is for programs; names are the classes', and auto says that the run had no number of
// epochs.
func printSummary(e *command.Env, s *train.Summary, names []string, saved savedRun, auto bool) {
	to := e.Told()
	printFinished(e, saved.Finished, len(s.EpochSeconds))
	numbers, several := s.Errors != nil, s.F1 != nil
	validated := s.ValidAccuracy >= 0 || numbers && s.ValidMAE != nil || several && s.ValidMicro != nil
	if auto && len(s.EpochSeconds) < run.EpochsMax && validated && s.BestEpoch < len(s.EpochSeconds) {
		what := "accuracy"
		switch {
		case numbers:
			what = "error"
		case several:
			what = "micro F1"
		case s.RareClass:
			what = "accuracy and average precision, on average,"
		}
		nor := ""
		if s.LeastLossEpoch > s.BestEpoch {
			nor = fmt.Sprintf(", nor validation loss since epoch %d", s.LeastLossEpoch)
		}
		fmt.Fprintf(to, "stopped after %d epochs: validation %s%s has not improved since epoch %d%s\n", len(s.EpochSeconds), what, balancedText(s), s.BestEpoch, nor)
	}
	switch {
	case numbers:
		e.TellResult("%s, best epoch %d of %d", errorsText(s.Errors), s.BestEpoch, len(s.EpochSeconds))
	case several:
		e.TellResult("%s, best epoch %d of %d", f1Text(s.F1), s.BestEpoch, len(s.EpochSeconds))
	default:
		e.TellResult("test accuracy %s, valid %s, best epoch %d of %d", command.FormatPercent(s.TestAccuracy), command.FormatPercent(s.ValidAccuracy), s.BestEpoch, len(s.EpochSeconds))
	}
	if s.ValidBalanced != nil && s.TestBalanced != nil {
		fmt.Fprintf(to, "balanced accuracy (the mean over classes): test %s, valid %s, by which the best epoch is chosen\n",
			command.FormatPercent(*s.TestBalanced), command.FormatPercent(*s.ValidBalanced))
	}
	if s.RareClass {
		fmt.Fprintln(to, "one class is rare: the best epoch is that of the best mean of validation accuracy and average precision")
	}
	if text := areasText(s.Areas, several, names); text != "" {
		fmt.Fprintln(to, text)
	}
	if b := s.Baselines; b != nil && b.Split != "" {
		fmt.Fprintf(to, "beside it, on the %s nodes: %s\n", b.Split, besideText(b, names))
	}
	if s.ListedEdges > 0 {
		fmt.Fprintf(to, "pruning left out %s of the neighbours in the lists that were drawn from\n", command.FormatPercent(float64(s.PrunedEdges)/float64(s.ListedEdges)))
	}
	if !validated {
		fmt.Fprintln(to, "the split has no validation nodes: the model is the last epoch's")
	}
	e.TellBeside("%.1f s (%.1f CPU s), %s peak memory, %s read; plan %s, %s, %s",
		s.TotalSeconds, s.CPUSeconds, command.FormatSize(s.PeakRSSBytes), command.FormatSize(s.BytesRead), s.Plan, s.Device, s.IOEngine)
	if s.BytesRead >= 1<<30 {
		fmt.Fprintf(to, "of these training read %s, evaluation and history %s; of temporary files %s were read and %s written\n", command.FormatSize(s.TrainBytesRead),
			command.FormatSize(s.EvalBytesRead), command.FormatSize(s.StateBytesRead+s.HistoryRowBytes), command.FormatSize(s.StateBytesWritten))
	}
	printProfile(e, s.Profile)
	printDeviceRows(e, s.DeviceRows)
	if s.Table != "" {
		fmt.Fprintf(to, "learned vectors: table %s of the store; %s written, and by checkpoints %s\n", s.Table, command.FormatSize(s.BytesWritten-s.StateBytesWritten), command.FormatSize(s.CheckpointBytes))
	}
	fmt.Fprintf(to, "model: %s\n", saved.Path)
}

// printDeviceRows says what rows cost between host and device; nil: they stayed where they are.
func printDeviceRows(e *command.Env, r *cache.Traffic) {
	if r == nil {
		return
	}
	moved := command.FormatSize(r.MovedBytes) + " moved"
	if r.ReturnedBytes > 0 {
		moved += ", " + command.FormatSize(r.ReturnedBytes) + " back"
	}
	fmt.Fprintf(e.Told(), "rows to the device: %s, %s saved by policy %s: %.1f %% of rows were there\n",
		moved, command.FormatSize(r.SavedBytes), r.Policy, 100*r.HitRate())
}

func summaryFields(s *train.Summary, saved savedRun) map[string]any {
	f := command.Fields(s)
	if saved.Finished > 0 {
		f["finished_run"] = saved.Finished
	}
	f["model_file"] = saved.Path
	return f
}

// previousRun is where the last checkpoint of an unfinished run goes when another run begins, beside that one's.
const previousRun = "previous.gsr"

// keepUnfinished moves the checkpoint of a run that was not finished out of the way of one that begins, and says so.
func keepUnfinished(e *command.Env, file string) {
	at, err := train.ReadPosition(vfs.Default, file)
	if err != nil || !at.Unfinished() { // none, or a damaged one: nothing to go on from
		return
	}
	to := filepath.Join(filepath.Dir(file), previousRun)
	if err := os.Rename(file, to); err != nil {
		fmt.Fprintf(e.Stderr, "gstore: the run before stopped in epoch %d and is lost to this one: %v\n", at.Finished+1, err)
		return
	}
	fmt.Fprintf(e.Stderr, "gstore: the run before stopped in epoch %d, this one begins anew; to go on with that one: --resume --checkpoint-file %s\n", at.Finished+1, to)
}

// printResume says where --resume goes on: nothing begins anew silently.
func printResume(e *command.Env, where string, found bool, epochs, step, batch int) {
	e.Event("resume", map[string]any{"found": found, "epochs": epochs, "step": step, "batch": batch})
	switch {
	case !found:
		fmt.Fprintf(e.Stderr, "gstore: --resume: there is no checkpoint in %s: training begins with epoch 1\n", where)
	case e.JSON:
	case step > 0 || batch > 0:
		fmt.Fprintf(e.Told(), "resumed in epoch %d, at mini-batch %d of step %d\n", epochs+1, batch+1, step+1)
	default:
		fmt.Fprintf(e.Told(), "resumed after epoch %d\n", epochs)
	}
}
