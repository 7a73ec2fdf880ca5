// Package tfevents writes the event files that TensorBoard draws: scalars by tag and step.
//
// A file is a sequence of TFRecords (tensorflow/core/lib/io/record_writer.h): the length of a record as uint64, its masked CRC-32C, the
// record, its masked CRC-32C, all little-endian. A record is a protocol buffer Event (tensorflow/core/util/event.proto), of which
// this package writes
//
//	1 wall_time double · 2 step int64 · 3 file_version string · 5 summary { 1 value { 1 tag string · 2 simple_value float } }
package tfevents

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// version is the first record of a file.
const version = "brain.Event:2"

// Writer writes one file. It is for one goroutine.
type Writer struct {
	f *os.File
}

// Scalar is a value of a curve.
type Scalar struct {
	Tag   string // such as "loss/train": TensorBoard groups by what is before the slash
	Value float64
}

// Create makes a file with a new name in dir, which it makes if need be. TensorBoard draws all files of a folder as one run.
func Create(dir string) (*Writer, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, fmt.Errorf("event file: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	now := time.Now()
	name := fmt.Sprintf("events.out.tfevents.%010d.%s.%d.%09d", now.Unix(), host, os.Getpid(), now.Nanosecond())
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, fmt.Errorf("event file: %w", err)
	}
	w := &Writer{f}
	b := protowire.AppendTag(stamp(nil, now), 3, protowire.BytesType)
	if err := w.record(protowire.AppendString(b, version)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return w, nil
}

// stamp appends an event's time.
func stamp(b []byte, t time.Time) []byte {
	b = protowire.AppendTag(b, 1, protowire.Fixed64Type)
	return protowire.AppendFixed64(b, math.Float64bits(float64(t.UnixNano())/1e9))
}

// Scalars writes the values of a step. A value that is no number is drawn as such.
func (w *Writer) Scalars(step int64, scalars []Scalar) error {
	var summary []byte
	for _, s := range scalars {
		value := protowire.AppendTag(nil, 1, protowire.BytesType)
		value = protowire.AppendString(value, s.Tag)
		value = protowire.AppendTag(value, 2, protowire.Fixed32Type)
		value = protowire.AppendFixed32(value, math.Float32bits(float32(s.Value)))
		summary = protowire.AppendTag(summary, 1, protowire.BytesType)
		summary = protowire.AppendBytes(summary, value)
	}
	b := stamp(nil, time.Now())
	b = protowire.AppendTag(b, 2, protowire.VarintType)
	b = protowire.AppendVarint(b, uint64(step))
	b = protowire.AppendTag(b, 5, protowire.BytesType)
	return w.record(protowire.AppendBytes(b, summary))
}

// Parameters appends the settings of a run, as TensorBoard's table of hyper-parameters reads them: numbers, texts and truth values by name.
// A value of another type is an error.
func (w *Writer) Parameters(of map[string]any) error {
	now := time.Now()
	var info []byte // SessionStartInfo of tensorboard/plugins/hparams/plugin_data.proto
	for _, name := range slices.Sorted(maps.Keys(of)) {
		var value []byte // google.protobuf.Value
		switch v := of[name].(type) {
		case float64:
			value = protowire.AppendTag(value, 2, protowire.Fixed64Type)
			value = protowire.AppendFixed64(value, math.Float64bits(v))
		case string:
			value = protowire.AppendTag(value, 3, protowire.BytesType)
			value = protowire.AppendString(value, v)
		case bool:
			value = protowire.AppendTag(value, 4, protowire.VarintType)
			value = protowire.AppendVarint(value, protowire.EncodeBool(v))
		default:
			return fmt.Errorf("event file: parameter %s is a %T, expected a number, a text or a truth value", name, v)
		}
		pair := message(message(nil, 1, []byte(name)), 2, value)
		info = message(info, 1, pair)
	}
	info = protowire.AppendTag(info, 5, protowire.Fixed64Type)
	info = protowire.AppendFixed64(info, math.Float64bits(float64(now.UnixNano())/1e9))
	plugin := message(message(nil, 1, []byte("hparams")), 2, message(nil, 3, info))
	// A summary has a value: TensorBoard writes a 0 of 32 bits beside what is meant.
	zero := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	zero = message(message(zero, 2, nil), 5, protowire.AppendFixed32(nil, 0))
	value := message(message(message(nil, 1, []byte("_hparams_/session_start_info")), 8, zero), 9, message(nil, 1, plugin))
	return w.record(message(stamp(nil, now), 5, message(nil, 1, value)))
}

// message appends a field of bytes: a message, or a text.
func message(b []byte, field protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, field, protowire.BytesType), content)
}

// Name returns the file's path.
func (w *Writer) Name() string { return w.f.Name() }

// Close closes the file.
func (w *Writer) Close() error { return w.f.Close() }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked is a checksum as TFRecords keep it: one of data that holds checksums is weak (tensorflow/core/lib/hash/crc32c.h).
func masked(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

// record writes a record at once, so that a reader sees whole ones.
func (w *Writer) record(data []byte) error {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, masked(b))
	b = append(b, data...)
	b = binary.LittleEndian.AppendUint32(b, masked(data))
	if _, err := w.f.Write(b); err != nil {
		return fmt.Errorf("event file: %w", err)
	}
	return nil
}
