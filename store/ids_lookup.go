package store

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/internal/meta"
)

// NoNode stands where an external id names no node.
const NoNode = ^NodeID(0)

// ExternalIDs are the external ids of consecutive nodes: integers or strings,
// by Manifest.IDs.Kind.
type ExternalIDs struct {
	Ints    []uint64       // dense and integer ids; nil for strings
	Strings blocks.Strings // string ids
}

// Len returns the number of ids.
func (x *ExternalIDs) Len() int {
	if x.Ints != nil {
		return len(x.Ints)
	}
	return x.Strings.Len()
}

// Append appends id i as text to dst.
func (x *ExternalIDs) Append(dst []byte, i int) []byte {
	if x.Ints != nil {
		return fmt.Appendf(dst, "%d", x.Ints[i])
	}
	return append(dst, x.Strings.At(i)...)
}

// ReadExternal reads the external ids of partition p's nodes, in order of
// internal ids, into dst, which is grown if it is too small. The result refers
// to the returned bytes, which belong to the caller.
func (s *Store) ReadExternal(ctx context.Context, p PartitionID, dst []byte) (ExternalIDs, []byte, error) {
	f, e, err := s.Files().External(p)
	if err != nil {
		return ExternalIDs{}, nil, err
	}
	b, err := s.readExtent(ctx, f, e, dst)
	if err != nil {
		return ExternalIDs{}, nil, err
	}
	var x ExternalIDs
	if headerOf(f).RowBytes() > 0 {
		x.Ints, err = blocks.View[uint64](b)
		if x.Ints == nil {
			x.Ints = []uint64{}
		}
	} else {
		x.Strings, err = blocks.OpenStrings(b, e.Rows)
	}
	return x, b, inExtent(f, e, err)
}

// External returns one node's external id as text. For many nodes read whole
// partitions with ReadExternal.
func (s *Store) External(ctx context.Context, id NodeID) (string, error) {
	p, err := s.manifest.Partition(id)
	if err != nil {
		return "", err
	}
	f, e, err := s.Files().External(p)
	if err != nil {
		return "", err
	}
	k := int64(id - s.manifest.Partitions[p].First)
	if headerOf(f).RowBytes() == 0 {
		x, err := s.ExternalStrings(ctx, []NodeID{id})
		if err != nil {
			return "", err
		}
		return x[0], nil
	}
	b, err := f.ReadRange(e, 8*k, 8*k+8)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(binary.LittleEndian.Uint64(b)), nil
}

// LookupInts finds the internal ids of integer external ids: ids[i] becomes
// that of external[i], or NoNode. Both slices have one length.
func (s *Store) LookupInts(ctx context.Context, external []uint64, ids []NodeID) error {
	if len(external) != len(ids) {
		return fmt.Errorf("%w: %d external ids, room for %d", ErrInvalid, len(external), len(ids))
	}
	switch s.manifest.IDs.Kind {
	case IDsDense:
		return s.lookupDense(ctx, external, ids)
	case IDsIntegers:
		var key [8]byte
		return s.lookupDictionary(ctx, len(ids), ids, func(i int) []byte {
			binary.BigEndian.PutUint64(key[:], external[i])
			return key[:]
		})
	}
	return fmt.Errorf("%w: external ids of %s are %s, not integers", ErrInvalid, s.env.Dir, s.manifest.IDs.Kind)
}

// LookupStrings is LookupInts for string ids.
func (s *Store) LookupStrings(ctx context.Context, external []string, ids []NodeID) error {
	if len(external) != len(ids) {
		return fmt.Errorf("%w: %d external ids, room for %d", ErrInvalid, len(external), len(ids))
	}
	if s.manifest.IDs.Kind != IDsStrings {
		return fmt.Errorf("%w: external ids of %s are %s, not strings", ErrInvalid, s.env.Dir, s.manifest.IDs.Kind)
	}
	return s.lookupDictionary(ctx, len(ids), ids, func(i int) []byte { return []byte(external[i]) })
}

// LookupTexts finds nodes by ids of any kind as people write them: integers in decimal digits, strings as [Store.LookupNames] takes them.
// NoNode stands for those that there are not, and for what is no such integer.
func (s *Store) LookupTexts(ctx context.Context, external []string, ids []NodeID) error {
	if s.manifest.IDs.Kind == IDsStrings {
		return s.LookupNames(ctx, external, ids)
	}
	ints, bad := make([]uint64, len(external)), make([]bool, len(external))
	for i, text := range external {
		n, err := parseID(text)
		ints[i], bad[i] = n, err != nil || strconv.FormatUint(n, 10) != text
	}
	err := s.LookupInts(ctx, ints, ids)
	for i := range bad {
		if bad[i] {
			ids[i] = NoNode
		}
	}
	return err
}

// Lookup finds one node by its external id as text; ErrNotFound if there is
// none. Of typed ids the type may be left out ([Store.LookupNames]). For many ids use
// LookupInts, LookupStrings or LookupNames: each call of these opens the dictionary once.
func (s *Store) Lookup(ctx context.Context, external string) (NodeID, error) {
	ids := []NodeID{NoNode}
	var err error
	if s.manifest.IDs.Kind == IDsStrings {
		err = s.LookupNames(ctx, []string{external}, ids)
	} else {
		var n uint64
		if n, err = parseID(external); err == nil {
			err = s.LookupInts(ctx, []uint64{n}, ids)
		}
	}
	if err == nil && ids[0] == NoNode {
		err = fmt.Errorf("%w: no node has external id %q", ErrNotFound, external)
	}
	return ids[0], err
}

// lookupDense reads the map, a chunk at a time: ascending ids read each chunk once.
func (s *Store) lookupDense(ctx context.Context, external []uint64, ids []NodeID) error {
	f, err := s.Files().File(s.manifest.IDs.Map)
	if err != nil {
		return err
	}
	per := f.Header().ExtentRows
	var window []byte // bytes from … of extent number at
	at, from := ^uint64(0), int64(0)
	scratch, give := pointBuffer(blocks.RangeBytes(blocks.ChunkBytes))
	defer give()
	for i, x := range external {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ids[i] = NoNode
		f, e, ok, err := s.Files().IDMap(x / per)
		if err != nil {
			return err
		}
		k := x % per
		if !ok || k >= e.Rows {
			continue
		}
		h := f.Header()
		size := int64(h.Elem.Size())
		if at != e.ID || int64(k)*size < from || int64(k+1)*size > from+int64(len(window)) {
			at, from = e.ID, int64(k)*size/blocks.ChunkBytes*blocks.ChunkBytes
			if window, err = f.ReadRangeInto(e, from, min(e.Length, from+blocks.ChunkBytes), scratch); err != nil {
				return err
			}
		}
		if id, ok := decodeMapped(window[int64(k)*size-from:][:size]); ok {
			if uint64(id) >= s.manifest.Nodes {
				return mismatch(f, h.ExtentName(e.ID), "id %d in a store of %d nodes", id, s.manifest.Nodes)
			}
			ids[i] = id
		}
	}
	return nil
}

// decodeMapped decodes an id map's entry; the largest value means no node.
func decodeMapped(b []byte) (NodeID, bool) {
	if len(b) == 4 {
		v := binary.LittleEndian.Uint32(b)
		return NodeID(v), v != ^uint32(0)
	}
	v := binary.LittleEndian.Uint64(b)
	return NodeID(v), v != ^uint64(0)
}

// lookupDictionary asks Pebble, newest generation first, under one hold of the lock.
func (s *Store) lookupDictionary(ctx context.Context, n int, ids []NodeID, key func(i int) []byte) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	m, err := meta.Open(ctx, s.env, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	// A sweep may have removed this snapshot's generations.
	if _, err := readManifest(m, s.manifest.Version); err != nil {
		if errors.Is(err, ErrNotFound) {
			err = fmt.Errorf("%w (%w)", err, ErrSwept)
		}
		return fmt.Errorf("look up ids: %w", err)
	}
	gens := s.manifest.IDs.Dictionaries
	var buf []byte
	for i := range n {
		if i%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		ids[i] = NoNode
		k := key(i)
		for g := len(gens) - 1; g >= 0; g-- {
			buf = meta.DictionaryKey(buf[:0], gens[g], k)
			v, ok, err := m.Get(buf)
			if err != nil {
				return err
			}
			if !ok {
				continue
			}
			if len(v) != 8 || binary.BigEndian.Uint64(v) >= s.manifest.Nodes {
				return m.Corrupt("dictionary", "entry %q is % x in a store of %d nodes", k, v, s.manifest.Nodes)
			}
			ids[i] = NodeID(binary.BigEndian.Uint64(v))
			break
		}
	}
	return nil
}
