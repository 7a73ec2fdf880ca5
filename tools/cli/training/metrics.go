package training

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/eval"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/temporal"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/tfevents"
)

// metricsLog is where a run's measurements and results go: the file of --metrics, and that of --tensorboard. nil is none.
type metricsLog struct {
	f      *os.File // nil: no --metrics
	w      *metrics.Writer
	board  *tfevents.Writer // nil: no --tensorboard
	failed error            // the first one
	resume bool             // the run goes on with another's file
	first  func() error     // writes with what the run trains
}

// openMetrics opens what is asked for before a run begins. What a run that is resumed wrote to path stays; below board every
// process has a file of its own.
func openMetrics(path, board string, resume bool) (l *metricsLog, err error) {
	if path == "" && board == "" {
		return nil, nil
	}
	l = &metricsLog{resume: resume}
	if path != "" {
		mode := os.O_RDWR | os.O_CREATE
		if !resume {
			mode |= os.O_TRUNC
		}
		if l.f, err = os.OpenFile(path, mode, 0o666); err != nil {
			return nil, fmt.Errorf("--metrics: %w", err)
		}
		l.w = metrics.NewWriter(l.f)
	}
	if board != "" {
		if l.board, err = tfevents.Create(board); err != nil {
			return nil, errors.Join(fmt.Errorf("--tensorboard: %w", err), l.close())
		}
	}
	return l, nil
}

// begin takes the store and the configuration with which a run trains. Of one that is resumed, what the file holds is known later.
func (l *metricsLog) begin(dir string, config any) {
	if l == nil || l.f == nil {
		return
	}
	l.first = func() error { return l.w.Begin(dir, config) }
	if !l.resume {
		l.write(l.first)
	}
}

// again is goOn for a run that goes back to the end of an epoch and on by another configuration.
func (l *metricsLog) again(dir string, config any, epochs int) {
	if l != nil && l.f != nil {
		l.first = func() error { return l.w.Begin(dir, config) }
		l.goOn(true, epochs)
	}
}

// parameters takes the configuration of the run for TensorBoard, once it is known.
func (l *metricsLog) parameters(config any) {
	if l != nil && l.board != nil && l.failed == nil {
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

// goOn goes on behind the finished epochs' lines, or begins the file anew.
func (l *metricsLog) goOn(found bool, epochs int) {
	if l == nil || l.f == nil {
		return
	}
	if !found {
		epochs = 0
	}
	l.w, l.failed = metrics.Continue(l.f, epochs)
	l.write(l.first)
}

// write calls do unless something failed or there is no file.
func (l *metricsLog) write(do func() error) {
	if l != nil && l.f != nil && l.failed == nil {
		l.failed = do()
	}
}

// epochRows appends an epoch's lines, with what rows cost between host and device.
func (l *metricsLog) epochRows(s buffer.Stats, rows *cache.Traffic) {
	l.write(func() error { return l.w.EpochRows(s, rows) })
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

// result takes what an epoch, counted from 1, came to.
func (l *metricsLog) result(epoch int, seconds float64, read int64, device gpu.DeviceTimes, r metrics.Result) {
	r.Epoch = epoch
	r.DeviceSeconds, r.DeviceIdleSeconds, r.DeviceCopySeconds = device.DeviceSeconds, device.DeviceIdleSeconds, device.DeviceCopySeconds
	r.DeviceSampleSeconds, r.DeviceBlockBytes = device.DeviceSampleSeconds, device.DeviceBlockBytes
	r.DeviceWaits, r.ReplayedBatches, r.ReplayShapes = device.DeviceWaits, device.ReplayedBatches, device.ReplayShapes
	l.write(func() error { return l.w.Result(r) })
	if l == nil || l.board == nil || l.failed != nil {
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
func (l *metricsLog) end(e metrics.End) { l.write(func() error { return l.w.End(e) }) }

// confusion takes what the final model makes of a split; names are the classes'.
func (l *metricsLog) confusion(names []string) func(split string, c *eval.Confusion) {
	if l == nil || l.f == nil {
		return nil
	}
	return func(split string, c *eval.Confusion) {
		for label := range c.Classes {
			row := metrics.ConfusionRow{Split: split, Label: className(names, label), Predicted: map[string]int64{}}
			for p := range c.Classes {
				if n := c.At(label, p); n > 0 {
					row.Predicted[className(names, p)] = n
				}
			}
			l.write(func() error { return l.w.Confusion(row) })
		}
	}
}

func (l *metricsLog) close() error {
	if l == nil {
		return nil
	}
	err := l.failed
	if l.f != nil {
		err = errors.Join(err, l.f.Close())
	}
	if l.board != nil {
		err = errors.Join(err, l.board.Close())
	}
	return err
}
