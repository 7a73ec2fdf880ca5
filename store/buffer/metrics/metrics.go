// Package metrics writes what the partition buffer measured as JSON lines, and reads them back: the files of
// "--metrics" that "gstore report" draws.
package metrics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
)

// Writer writes measurements as JSON lines: what "--metrics FILE.jsonl"
// holds and "gstore report" reads. Each line is an object with an "event":
//
//	{"event":"begin","store":"cora.gstore","config":{"model":"sage",…}}
//	{"event":"epoch","epoch":1,"policy":"hanoi","engine":"io_uring","bytes_read":…,"stall_s":…,…}
//	{"event":"step","epoch":1,"step":3,"bytes_read":…,"begin_s":…,"end_s":…,…}
//	{"event":"sample","at_s":1.2,"bytes":…,"requests":…,"train_s":…}
//	{"event":"result","epoch":1,"loss":…,"train_accuracy":…,"valid_accuracy":…,…}
//	{"event":"end","test_accuracy":…,…}
//	{"event":"confusion","split":"test","label":"a","predicted":{"a":7,"b":1}}
//
// Epochs count from 1, steps from 0. Times ending in _s are seconds, those of a step and a sample since the run began.
// It is for one goroutine.
type Writer struct {
	w       *bufio.Writer
	samples int64 // intervals already written
	// Where the run is resumed: what was written before.
	epochs  int
	seconds float64
	resumed bool // lines were left
	most    int  // lines of steps, and of samples; 0: no bound
	steps   int  // lines written
	sampled int
}

// Bound bounds how many lines of steps, and how many of samples, are written: those of later epochs are left out, of which the epochs' own
// lines tell. 0 is no bound.
func (w *Writer) Bound(lines int) { w.most = lines }

func (w *Writer) full(lines int) bool { return w.most > 0 && lines > w.most }

// NewWriter returns a writer that appends lines to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: bufio.NewWriter(w)} }

// Continue returns a writer of a run that is resumed after so many finished epochs: their lines stay in f, what follows
// them is cut off, and the numbers of epochs and the times of what is written go on from theirs.
func Continue(f *os.File, epochs int) (*Writer, error) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	w, at, end := NewWriter(f), 0, 0
	for line := range bytes.Lines(text) {
		at += len(line)
		var l struct {
			Epoch *int    `json:"epoch"`
			End   float64 `json:"end_s"`
		}
		if json.Unmarshal(line, &l) == nil && l.Epoch != nil && *l.Epoch <= epochs {
			end, w.seconds = at, max(w.seconds, l.End)
		}
	}
	if err := f.Truncate(int64(end)); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	w.resumed = end > 0
	w.epochs = epochs // those of which nothing was written count too
	if _, err := f.Seek(int64(end), io.SeekStart); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return w, nil
}

// Epoch is the line of an epoch. Extra fields of other writers are kept apart.
type Epoch struct {
	Event        string  `json:"event"` // "epoch"
	Epoch        int     `json:"epoch"`
	Policy       string  `json:"policy"`
	Engine       string  `json:"engine"`
	Reason       string  `json:"engine_reason,omitempty"`
	Gap          int64   `json:"gap_bytes"`     // what the reads of the epoch went by: [store.ReadTuning]
	Request      int64   `json:"request_bytes"` //
	Depth        int     `json:"queue_depth"`   //
	Tuning       string  `json:"tuning"`        // where these three come from
	MemoryBytes  int64   `json:"memory_bytes"`
	Start        float64 `json:"start_s"`
	End          float64 `json:"end_s"`
	BytesRead    int64   `json:"bytes_read"`
	BytesWritten int64   `json:"bytes_written"` // rows of an embedding table
	Requests     int64   `json:"requests"`
	Read         float64 `json:"read_s"`
	Write        float64 `json:"write_s"`
	WaitBuffers  float64 `json:"wait_buffers_s"`
	Assemble     float64 `json:"assemble_s"`
	Stall        float64 `json:"stall_s"`
	Train        float64 `json:"train_s"`
	Edges        int64   `json:"edges"`
	NewEdges     int64   `json:"new_edges"`
	QueueDepth   uint64  `json:"queue_depth_max"`
	// DeviceRows is what feature rows cost between host and device, where the device keeps some.
	DeviceRows *cache.Traffic `json:"device_rows,omitempty"`
}

// Step is the line of a step.
type Step struct {
	Event         string  `json:"event"` // "step"
	Epoch         int     `json:"epoch"`
	Step          int     `json:"step"`
	BytesRead     int64   `json:"bytes_read"`
	TopologyBytes int64   `json:"topology_bytes"`
	BytesWritten  int64   `json:"bytes_written"`
	Requests      int64   `json:"requests"`
	Loaded        int     `json:"loaded"`
	Resident      int     `json:"resident"`
	Partitions    []int   `json:"partitions,omitempty"` // those resident, where they are not too many
	Loads         []int   `json:"loads,omitempty"`      // and those read
	Edges         int64   `json:"edges"`
	NewEdges      int64   `json:"new_edges"`
	Read          float64 `json:"read_s"`
	Write         float64 `json:"write_s"`
	WaitBuffers   float64 `json:"wait_buffers_s"`
	Assemble      float64 `json:"assemble_s"`
	Stall         float64 `json:"stall_s"`
	Ready         float64 `json:"ready_s"`
	Begin         float64 `json:"begin_s"`
	End           float64 `json:"end_s"`
}

// Sample is the line of a [buffer.BandwidthSample].
type Sample struct {
	Event    string  `json:"event"` // "sample"
	At       float64 `json:"at_s"`
	Bytes    int64   `json:"bytes"`
	Requests int64   `json:"requests"`
	Train    float64 `json:"train_s"`
}

// Epoch writes an epoch's lines: call it when the epoch is over, with
// [buffer.Buffer.Stats]. The interval that is not over yet is left for the next epoch.
func (w *Writer) Epoch(s buffer.Stats) error { return w.EpochRows(s, nil) }

// EpochRows is Epoch with what feature rows cost between host and device; nil: the device reads them where they are.
func (w *Writer) EpochRows(s buffer.Stats, rows *cache.Traffic) error {
	end := s.Start
	all := !w.full(w.steps + len(s.Steps)) // of an epoch, or none
	for _, st := range s.Steps {
		if end = max(end, st.End); !all {
			continue
		}
		w.steps++
		err := w.write(Step{
			Event: "step", Epoch: w.epochs + st.Epoch + 1, Step: st.Step, BytesRead: st.BytesRead, TopologyBytes: st.TopologyBytes, BytesWritten: st.BytesWritten,
			Requests: st.Requests, Loaded: st.Loaded, Resident: st.Resident, Partitions: listed(st.Partitions), Loads: listed(st.Loads), Edges: st.Edges, NewEdges: st.NewEdges,
			Read: st.Read.Seconds(), Write: st.Write.Seconds(), WaitBuffers: st.WaitBuffers.Seconds(), Assemble: st.Assemble.Seconds(),
			Stall: st.Stall.Seconds(), Ready: w.seconds + st.Ready.Seconds(), Begin: w.seconds + st.Begin.Seconds(), End: w.seconds + st.End.Seconds(),
		})
		if err != nil {
			return err
		}
	}
	for i, b := range s.Samples {
		k := int64(b.At / buffer.SampleInterval)
		if k < w.samples || i == len(s.Samples)-1 || w.full(w.sampled+1) {
			continue
		}
		w.samples = k + 1
		w.sampled++
		if err := w.write(Sample{Event: "sample", At: w.seconds + b.At.Seconds(), Bytes: b.Bytes, Requests: b.Requests, Train: b.Train.Seconds()}); err != nil {
			return err
		}
	}
	err := w.write(Epoch{
		Event: "epoch", Epoch: w.epochs + s.Epoch + 1, Policy: s.Policy, Engine: s.Engine, Reason: s.EngineReason, MemoryBytes: s.MemoryBytes,
		Gap: s.Tuning.GapBytes, Request: s.Tuning.RequestBytes, Depth: s.Tuning.Depth, Tuning: s.Tuning.Why,
		Start: w.seconds + s.Start.Seconds(), End: w.seconds + end.Seconds(), BytesRead: s.BytesRead, BytesWritten: s.BytesWritten, Requests: s.Requests,
		Read: s.Read.Seconds(), Write: s.Write.Seconds(), WaitBuffers: s.WaitBuffers.Seconds(), Assemble: s.Assemble.Seconds(), Stall: s.Stall.Seconds(),
		Train: s.Train.Seconds(), Edges: s.Edges, NewEdges: s.NewEdges, QueueDepth: s.IO.InFlightMax, DeviceRows: rows,
	})
	if err != nil {
		return err
	}
	return w.w.Flush()
}

// listedMost is of how many partitions a step's line lists them.
const listedMost = 128

func listed(ids []store.PartitionID) (list []int) {
	if len(ids) > listedMost {
		return nil
	}
	for _, p := range ids {
		list = append(list, int(p))
	}
	return list
}

// Event writes a line of another kind; fields holds its "event".
func (w *Writer) Event(fields map[string]any) error { return w.line(fields) }

func (w *Writer) write(line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	if _, err := w.w.Write(append(b, '\n')); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// File is a metrics file read back.
type File struct {
	Begin     *Begin // nil: an older run wrote none
	Epochs    []Epoch
	Steps     []Step
	Samples   []Sample
	Results   []Result
	Confusion []ConfusionRow
	End       *End // nil: the run did not end
}

// metricsLineMax bounds a line: no event comes near it.
const lineMax = 1 << 20

// begun reports whether something of a run was read.
func (m *File) begun() bool {
	return m.Begin != nil || len(m.Epochs)+len(m.Steps)+len(m.Samples)+len(m.Results) > 0
}

// noMetrics is the error of a file with a bad line, which is no such file at all where nothing of a run stands before it.
func noMetrics(bad error, m *File) error {
	if m.begun() {
		return bad
	}
	return fmt.Errorf("%w; expected what train --metrics writes, a JSON object to a line", bad)
}

// Read reads a metrics file. Events that it does not know are skipped,
// and so is an unfinished last line; any other line that is no event is an error with its number.
func Read(r io.Reader) (*File, error) {
	m := &File{}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), lineMax)
	var bad error
	for n := 1; sc.Scan(); n++ {
		if bad != nil {
			return nil, noMetrics(bad, m)
		}
		line := sc.Bytes()
		var kind struct {
			Event string `json:"event"`
		}
		err := json.Unmarshal(line, &kind)
		if err == nil {
			switch kind.Event {
			case "begin":
				m.Begin = new(Begin)
				err = json.Unmarshal(line, m.Begin)
			case "epoch":
				err = appendLine(&m.Epochs, line)
			case "step":
				err = appendLine(&m.Steps, line)
			case "sample":
				err = appendLine(&m.Samples, line)
			case "result":
				err = appendLine(&m.Results, line)
			case "confusion":
				err = appendLine(&m.Confusion, line)
			case "end":
				m.End = new(End)
				err = json.Unmarshal(line, m.End)
			}
		}
		if err != nil {
			bad = fmt.Errorf("metrics: line %d: %w", n, err)
		}
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if bad != nil && !m.begun() {
		return nil, noMetrics(bad, m)
	}
	m.fromOne()
	return m, nil
}

// fromOne counts the epochs of a file from 1 that an earlier program wrote from 0.
func (m *File) fromOne() {
	if !slices.ContainsFunc(m.Epochs, func(e Epoch) bool { return e.Epoch == 0 }) {
		return
	}
	for i := range m.Epochs {
		m.Epochs[i].Epoch++
	}
	for i := range m.Steps {
		m.Steps[i].Epoch++
	}
	for i := range m.Results {
		m.Results[i].Epoch++
	}
}

func appendLine[T any](to *[]T, line []byte) error {
	var v T
	if err := json.Unmarshal(line, &v); err != nil {
		return err
	}
	*to = append(*to, v)
	return nil
}

// Bandwidth is the sample's bytes a second.
func (s *Sample) Bandwidth() float64 {
	return float64(s.Bytes) / (float64(buffer.SampleInterval) / float64(time.Second))
}

// Utilisation is the share of the sample in which a macro-batch was in the trainer's hands.
func (s *Sample) Utilisation() float64 {
	return min(1, s.Train/(float64(buffer.SampleInterval)/float64(time.Second)))
}
