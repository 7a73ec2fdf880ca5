package training

import (
	"errors"
	"fmt"
	"os"

	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/buffer/metrics"
)

// metricsLog is the file of --metrics; nil is none.
type metricsLog struct {
	f      *os.File
	w      *metrics.Writer
	failed error // the first one
}

// openMetrics opens path for a run, before it begins. What a run that is resumed wrote there stays.
func openMetrics(path string, resume bool) (*metricsLog, error) {
	if path == "" {
		return nil, nil
	}
	mode := os.O_RDWR | os.O_CREATE
	if !resume {
		mode |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, mode, 0o666)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	return &metricsLog{f: f, w: metrics.NewWriter(f)}, nil
}

// resume goes on behind the finished epochs' lines, or begins the file anew.
func (l *metricsLog) resume(found bool, epochs int) {
	if l == nil {
		return
	}
	if !found {
		epochs = 0
	}
	l.w, l.failed = metrics.Continue(l.f, epochs)
}

// epoch appends an epoch's lines.
func (l *metricsLog) epoch(s buffer.Stats) {
	if l != nil && l.failed == nil {
		l.failed = l.w.Epoch(s)
	}
}

func (l *metricsLog) close() error {
	if l == nil {
		return nil
	}
	return errors.Join(l.failed, l.f.Close())
}
