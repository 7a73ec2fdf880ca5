package source

import "context"

// keyedAs is a source whose ids, and rows by ids, are those of another.
type keyedAs struct {
	Source
	of KeyedSource
}

// KeyedAs is s, which wraps of, as a [KeyedSource] with the ids and the rows by ids of of; s where of is none.
func KeyedAs(s, of Source) Source {
	if k, ok := of.(KeyedSource); ok {
		return &keyedAs{s, k}
	}
	return s
}

// NodeIDs implements [KeyedSource].
func (s *keyedAs) NodeIDs(ctx context.Context, env Env, emit func(*IDs, Position) error) error {
	return s.of.NodeIDs(ctx, env, emit)
}

// KeyedRows implements [KeyedSource].
func (s *keyedAs) KeyedRows(ctx context.Context, env Env, c int, emit func(*IDs, []byte, Position) error) error {
	return s.of.KeyedRows(ctx, env, c, emit)
}
