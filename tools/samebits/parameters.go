package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strings"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/gpu/modelfile"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parameters are checksums of all that a training learned: of the model's file, if there is one, and of the store's tables.
func parameters(ctx context.Context, dir, model string) (_ string, err error) {
	var of []string
	if b, err := os.ReadFile(model); err == nil {
		magic := modelfile.Node
		if bytes.HasPrefix(b, []byte(modelfile.Temporal)) {
			magic = modelfile.Temporal
		}
		params, err := modelfile.Decode(model, magic, b, new(json.RawMessage))
		if err != nil {
			return "", err
		}
		of = append(of, fmt.Sprintf("model %d %08x", len(params), crc32.Checksum(params, castagnoli)))
	}
	names, err := table.Names(ctx, dir, store.Options{})
	if err != nil {
		return "", err
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for _, name := range names {
		sum, err := tableSum(ctx, st, name)
		if err != nil {
			return "", err
		}
		of = append(of, sum)
	}
	if len(of) == 0 {
		return "", fmt.Errorf("%s: %w: neither a model nor a table", dir, store.ErrNotFound)
	}
	return strings.Join(of, ", "), nil
}

// tableSum is the checksum of the rows that a table's last checkpoint has, and of its parameters.
func tableSum(ctx context.Context, st *store.Store, name string) (_ string, err error) {
	t, err := table.Open(ctx, st, table.Options{Name: name, ReadOnly: true})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	h := crc32.New(castagnoli)
	for p := range t.Partitions() {
		if err := partitionSum(ctx, t, store.PartitionID(p), h.Write); err != nil {
			return "", err
		}
	}
	model, err := t.Blob(ctx, "model")
	if errors.Is(err, store.ErrNotFound) { // learned vectors of a model that is a file
		err = nil
	}
	return fmt.Sprintf("table %s %08x %08x", name, h.Sum32(), crc32.Checksum(model, castagnoli)), err
}

// partitionSum adds a partition's rows, the optimiser's state with them.
func partitionSum(ctx context.Context, t *table.Table, id store.PartitionID, add func([]byte) (int, error)) (err error) {
	n := t.PlaneBytes(id)
	slab, err := blockio.AllocSlab(max(1, n*int64(t.Planes())), blockio.SlabOptions{Threads: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, slab.Free()) }()
	var planes [][]byte
	for i := range int64(t.Planes()) {
		planes = append(planes, slab.Bytes()[i*n:(i+1)*n])
	}
	if err := t.Read(ctx, id, planes...); err != nil {
		return err
	}
	for _, b := range planes {
		_, _ = add(b[:int64(t.Nodes(id))*int64(t.Dim())*4]) // hashes do not fail
	}
	return nil
}
