package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gstore/gstore/store/internal/meta"
)

// visitsBatchBytes of counts are committed together.
const visitsBatchBytes = 4 << 20

// Visits returns how often each node, by internal id, fed mini-batches of runs of one kind, as KeepVisits kept it for this version
// of the store; nil if it did not. What is damaged is a [*blocks.CorruptError].
func (s *Store) Visits(ctx context.Context, kind [16]byte) (visits []uint32, err error) {
	m, err := meta.Open(ctx, s.env, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	for p, info := range s.manifest.Partitions {
		b, ok, err := m.Get(meta.VisitsKey(s.manifest.Version, kind, uint32(p)))
		if err != nil || !ok {
			return nil, err
		}
		if visits == nil {
			visits = make([]uint32, 0, s.manifest.Nodes)
		}
		for range info.Nodes {
			v, n := binary.Uvarint(b)
			if n <= 0 || v > 1<<32-1 {
				return nil, m.Corrupt("visits", "partition %d: counts of fewer than its %d nodes", p, info.Nodes)
			}
			visits, b = append(visits, uint32(v)), b[n:]
		}
		if len(b) > 0 {
			return nil, m.Corrupt("visits", "partition %d: counts of more than its %d nodes, by %d bytes", p, info.Nodes, len(b))
		}
	}
	return visits, nil
}

// KeepVisits keeps counts by internal id under a name that says what decides them but for the graph: a byte or two a node,
// for this version of the store alone. Counts of older versions are dropped. It waits for readers that are opening the store.
func (s *Store) KeepVisits(ctx context.Context, kind [16]byte, visits []uint32) (err error) {
	if uint64(len(visits)) != s.manifest.Nodes {
		return fmt.Errorf("%w: visits of %d nodes, the store has %d", ErrInvalid, len(visits), s.manifest.Nodes)
	}
	m, err := meta.Open(ctx, s.env, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	b := m.Pebble.NewBatch()
	if err := b.DeleteRange([]byte(meta.PrefixVisits), meta.VisitsKey(s.manifest.Version, [meta.KindBytes]byte{}, 0), nil); err != nil {
		return m.Wrap("write", err)
	}
	var counts []byte
	for p, info := range s.manifest.Partitions {
		counts = counts[:0]
		for _, v := range visits[info.First : uint64(info.First)+info.Nodes] {
			counts = binary.AppendUvarint(counts, uint64(v))
		}
		if err := b.Set(meta.VisitsKey(s.manifest.Version, kind, uint32(p)), counts, nil); err != nil {
			return m.Wrap("write", err)
		}
		if b.Len() < visitsBatchBytes {
			continue
		}
		if err := m.Apply(b); err != nil { // what a crash leaves lacks partitions: it counts as none
			return err
		}
		b = m.Pebble.NewBatch()
	}
	return m.Apply(b)
}
