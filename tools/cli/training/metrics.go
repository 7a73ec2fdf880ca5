package training

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/store/ingest/formats/database"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/tfevents"
)

// metricsLog is where a run's measurements and results go: the store's own file of them, that of --metrics, and that of
// --tensorboard. nil is none.
type metricsLog struct {
	files  []*metricsFile
	board  *tfevents.Writer              // nil: no --tensorboard
	failed error                         // the first one
	resume bool                          // the run goes on with another's files
	some   bool                          // an epoch ended, of the run or of the one that it goes on with
	first  func(w *metrics.Writer) error // writes with what the run trains
	began  time.Time
}

// metricsFile is a file of measurements.
type metricsFile struct {
	*metrics.Writer
	f    *os.File
	kept bool // the store's own, which a run does without where it cannot be written
}

// metricsTo is where a run's measurements are to go: into the file of --metrics, below the folder of --tensorboard, and into a file
// that is the store's when the run is recorded. "" is none.
type metricsTo struct{ path, board, kept string }

// keptFile names the file in which a run's measurements are kept until it is recorded: beside the store's checkpoint of its kind
// where that is the run's, and else one of its own. Of a store that cannot be written to there is none.
func keptFile(dir, last, checkpoint string) string {
	folder := filepath.Join(dir, runsDir)
	if makeRuns(dir) != nil {
		return ""
	}
	if checkpoint == filepath.Join(folder, last) {
		return strings.TrimSuffix(checkpoint, store.RunExtension) + store.MetricsExtension
	}
	return filepath.Join(folder, fmt.Sprintf("unfinished-%s-%d%s", time.Now().UTC().Format("20060102T150405"), os.Getpid(), store.MetricsExtension))
}

// keptTable is keptFile of a run whose checkpoints are those of a table of embeddings, which one run at a time writes.
func keptTable(dir, name string) string {
	file := filepath.Join(dir, runsDir, "last-"+name+store.RunExtension)
	return keptFile(dir, filepath.Base(file), file)
}

// keptLines is how many lines of steps, and of samples, the store's own file has at most: 10 MiB at most of each, whatever the run is.
const keptLines = 10_000

// openMetrics opens what is asked for before a run begins. What a run that is resumed wrote stays; below board every process has a
// file of its own.
func openMetrics(to metricsTo, resume bool) (l *metricsLog, err error) {
	l = &metricsLog{resume: resume, began: time.Now()}
	if to.path != "" {
		f, err := os.OpenFile(to.path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		l.files = append(l.files, &metricsFile{f: f})
	}
	if to.kept != "" {
		if f, err := os.OpenFile(to.kept, os.O_RDWR|os.O_CREATE, 0o666); err == nil {
			l.files = append(l.files, &metricsFile{f: f, kept: true})
		}
	}
	if to.board != "" {
		if l.board, err = tfevents.Create(to.board); err != nil {
			return nil, errors.Join(fmt.Errorf("--tensorboard: %w", err), l.close())
		}
	}
	return l, nil
}

// begin takes the store and the configuration with which a run trains. Of one that is resumed, what the files hold is known later.
func (l *metricsLog) begin(dir string, config any) {
	l.first = func(w *metrics.Writer) error { return w.Begin(dir, config) }
	if !l.resume {
		l.goOn(false, 0)
	}
}

// again is goOn for a run that goes back to the end of an epoch and on by another configuration.
func (l *metricsLog) again(dir string, config any, epochs int) {
	l.first = func(w *metrics.Writer) error { return w.Begin(dir, config) }
	l.goOn(true, epochs)
}

// parameters takes the configuration of the run for TensorBoard, once it is known.
func (l *metricsLog) parameters(config any) {
	if l.board != nil && l.failed == nil {
		l.failed = l.board.Parameters(parameters(config))
	}
}

// parameters are a configuration's settings, for TensorBoard: lists as texts, and what is not set left out.
func parameters(config any) map[string]any {
	of := map[string]any{}
	for name, v := range command.Fields(config) {
		switch v := v.(type) {
		case float64, string, bool:
			of[name] = v
		case []any:
			of[name] = strings.Trim(fmt.Sprint(v), "[]")
		}
	}
	return of
}

// goOn goes on behind the finished epochs' lines, or begins the files anew.
func (l *metricsLog) goOn(found bool, epochs int) {
	l.each(func(m *metricsFile) (err error) {
		if !found {
			epochs, err = 0, m.f.Truncate(0)
		}
		if err == nil {
			m.Writer, err = metrics.Continue(m.f, epochs)
		}
		if err != nil || l.first == nil {
			return err
		}
		if l.some = epochs > 0; m.kept {
			m.Bound(keptLines)
		}
		return l.first(m.Writer)
	})
}

// each calls do of the files until something fails: of the store's own, that it is left.
func (l *metricsLog) each(do func(m *metricsFile) error) {
	for _, m := range l.files {
		if m.f == nil || l.failed != nil {
			continue
		}
		if err := do(m); err != nil {
			if !m.kept {
				l.failed = err
				continue
			}
			m.drop()
		}
	}
}

// drop removes a file.
func (m *metricsFile) drop() {
	m.f.Close()
	os.Remove(m.f.Name())
	m.f = nil
}

// empty reports whether nothing is in a file.
func (m *metricsFile) empty() bool {
	info, err := m.f.Stat()
	return err == nil && info.Size() == 0
}

// write calls do of the files' writers.
func (l *metricsLog) write(do func(w *metrics.Writer) error) {
	l.each(func(m *metricsFile) error {
		if m.Writer == nil { // nothing is trained yet
			return nil
		}
		return do(m.Writer)
	})
}

// keep gives the store's own file the name of the run that it is of. One that had been recorded before has its own already.
func (l *metricsLog) keep(dir string, saved savedRun) {
	for _, m := range l.files {
		switch {
		case !m.kept || m.f == nil:
		case saved.Finished > 0:
			m.drop()
		case saved.Number > 0 && os.Rename(m.f.Name(), filepath.Join(dir, runsDir, store.MetricsFile(saved.Number))) == nil:
			m.kept = false // until it is recorded
		}
	}
}

// epochRows appends an epoch's lines, with what rows cost between host and device.
func (l *metricsLog) epochRows(s buffer.Stats, rows *cache.Traffic) {
	l.write(func(w *metrics.Writer) error { return w.EpochRows(s, rows) })
}

// node takes what an epoch of node classification came to.
func (l *metricsLog) node(r train.Epoch) {
	m := metrics.Result{Loss: metrics.Number(r.Loss), TrainAccuracy: metrics.Number(r.TrainAccuracy),
		ValidAccuracy: metrics.Number(r.ValidAccuracy), TestAccuracy: metrics.Number(r.TestAccuracy)}
	if x := r.Errors; x != nil {
		m.TrainMAE, m.ValidMAE, m.TestMAE = x.TrainMAE, x.ValidMAE, x.TestMAE
	}
	if x := r.F1; x != nil {
		m.ValidMicroF1, m.TestMicroF1 = x.ValidMicro, x.TestMicro
	}
	l.result(r.Epoch, r.Seconds, r.BytesRead, r.DeviceTimes, m)
}

// link takes what an epoch of link prediction came to.
func (l *metricsLog) link(r link.Epoch) {
	m := metrics.Result{Loss: metrics.Number(r.Loss)}
	if r.Valid != nil {
		m.ValidMRR, m.ValidHits10 = metrics.Number(r.Valid.MRR), metrics.Number(r.Valid.Hits10)
	}
	l.result(r.Epoch, r.Seconds, r.BytesRead, r.DeviceTimes, m)
}

// temporal takes what an epoch of temporal link prediction came to.
func (l *metricsLog) temporal(r temporal.Epoch) {
	l.result(r.Epoch, r.Seconds, 0, gpu.DeviceTimes{}, metrics.Result{Loss: metrics.Number(r.Loss), ValidMRR: metrics.Number(r.Valid.MRR), ValidHits10: metrics.Number(r.Valid.Hits10)})
}

// targets takes what an epoch of targets of rows came to.
func (l *metricsLog) targets(kind string, r targets.Epoch) {
	m := metrics.Result{Loss: metrics.Number(r.Loss)}
	*ofKind(kind, &m.ValidAUC, &m.ValidAccuracy, &m.ValidAP, &m.ValidMAP, &m.ValidMAE) = judgedBy(kind, &r.Valid)
	l.result(r.Epoch, r.Seconds, 0, gpu.DeviceTimes{}, m)
}

// targetsEnd is a run's result.
func targetsEnd(s *targets.Summary) metrics.End {
	m := metrics.End{BestEpoch: s.BestEpoch}
	*ofKind(s.Kind, &m.ValidAUC, &m.ValidAccuracy, &m.ValidAP, &m.ValidMAP, &m.ValidMAE) = judgedBy(s.Kind, &s.Valid)
	*ofKind(s.Kind, &m.TestAUC, &m.TestAccuracy, &m.TestAP, &m.TestMAP, &m.TestMAE) = judgedBy(s.Kind, &s.Test)
	return m
}

// judgedBy is what targets of a kind are judged by; nil: there are none.
func judgedBy(kind string, s *targets.Score) *float64 {
	if s.Rows == 0 {
		return nil
	}
	return metrics.Number(*ofKind(kind, &s.AUC, &s.Accuracy, &s.AP, &s.MAP, &s.MAE))
}

// ofKind is the one of some scores by which targets of a kind are judged.
func ofKind[T any](kind string, auc, accuracy, ap, mapAtK, mae T) T {
	switch kind {
	case database.Binary:
		return auc
	case database.Multiclass:
		return accuracy
	case database.Multilabel:
		return ap
	case database.Recommendation:
		return mapAtK
	}
	return mae
}

// result takes what an epoch, counted from 1, came to.
func (l *metricsLog) result(epoch int, seconds float64, read int64, device gpu.DeviceTimes, r metrics.Result) {
	r.Epoch = epoch
	r.DeviceSeconds, r.DeviceIdleSeconds, r.DeviceCopySeconds = device.DeviceSeconds, device.DeviceIdleSeconds, device.DeviceCopySeconds
	r.DeviceSampleSeconds, r.DeviceBlockBytes = device.DeviceSampleSeconds, device.DeviceBlockBytes
	r.DeviceWaits, r.ReplayedBatches, r.ReplayShapes = device.DeviceWaits, device.ReplayedBatches, device.ReplayShapes
	r.End = time.Since(l.began).Seconds()
	l.some = true
	l.write(func(w *metrics.Writer) error { return w.Result(r) })
	if l.board == nil || l.failed != nil {
		return
	}
	scalars := []tfevents.Scalar{{Tag: "epoch/seconds", Value: seconds}, {Tag: "epoch/read_MB", Value: float64(read) / 1e6}}
	if r.DeviceSeconds > 0 {
		scalars = append(scalars, tfevents.Scalar{Tag: "epoch/device_seconds", Value: r.DeviceSeconds},
			tfevents.Scalar{Tag: "epoch/device_idle_seconds", Value: r.DeviceIdleSeconds}, tfevents.Scalar{Tag: "epoch/device_copy_seconds", Value: r.DeviceCopySeconds})
	}
	for _, c := range []struct {
		tag string
		v   *float64
	}{{"loss/train", r.Loss}, {"accuracy/train", r.TrainAccuracy}, {"accuracy/valid", r.ValidAccuracy}, {"accuracy/test", r.TestAccuracy},
		{"mae/train", r.TrainMAE}, {"mae/valid", r.ValidMAE}, {"mae/test", r.TestMAE}, {"micro_f1/valid", r.ValidMicroF1}, {"micro_f1/test", r.TestMicroF1},
		{"mrr/valid", r.ValidMRR}, {"hits_at_10/valid", r.ValidHits10}} {
		if c.v != nil {
			scalars = append(scalars, tfevents.Scalar{Tag: c.tag, Value: *c.v})
		}
	}
	l.failed = l.board.Scalars(int64(epoch), scalars)
}

// end takes the run's result.
func (l *metricsLog) end(e metrics.End) { l.write(func(w *metrics.Writer) error { return w.End(e) }) }

// confusionClasses is of how many classes the store's own file has what is mistaken for what.
const confusionClasses = 200

// confusion takes what the final model makes of a split. It is nil where nobody keeps that: on a device
// with memory of its own, from which it would bring predictions back, and of many classes, unless --metrics asks for it.
func (l *metricsLog) confusion(schema *store.Schema, device gpu.Info) func(split string, c *eval.Confusion) {
	asked := slices.ContainsFunc(l.files, func(m *metricsFile) bool { return !m.kept })
	if len(l.files) == 0 || !asked && (schema.Classes > confusionClasses || device.OwnMemory()) {
		return nil
	}
	return func(split string, c *eval.Confusion) {
		for label := range c.Classes {
			row := metrics.ConfusionRow{Split: split, Label: className(schema.ClassNames, label), Predicted: map[string]int64{}}
			for p := range c.Classes {
				if n := c.At(label, p); n > 0 {
					row.Predicted[className(schema.ClassNames, p)] = n
				}
			}
			l.write(func(w *metrics.Writer) error { return w.Confusion(row) })
		}
	}
}

func (l *metricsLog) close() error {
	err := l.failed
	for _, m := range l.files {
		switch {
		case m.f == nil:
		case m.kept && !l.some && (m.Writer != nil || m.empty()): // it came to nothing; what an earlier run left stays
			m.drop()
		default:
			err = errors.Join(err, m.f.Close())
		}
	}
	if l.board != nil {
		err = errors.Join(err, l.board.Close())
	}
	return err
}
