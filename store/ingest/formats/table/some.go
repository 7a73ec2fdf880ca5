package table

import (
	"context"
	"errors"

	"github.com/gstore/gstore/store/ingest"
)

// ErrEnough is what emit of [ReadSome] returns where it needs no more rows.
var ErrEnough = errors.New("enough rows were read")

// ReadSome reads columns of t, on one thread, until emit has enough.
func ReadSome(ctx context.Context, t Table, want []Want, emit func(*Batch) error) error {
	t.Use(want)
	err := t.Read(ctx, ingest.Env{Threads: 1, MemoryBytes: ingest.SourceBytes}, want, emit)
	if errors.Is(err, ErrEnough) {
		return nil
	}
	return err
}
