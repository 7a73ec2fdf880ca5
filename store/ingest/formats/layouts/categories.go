package layouts

import (
	"context"

	"github.com/gstore/gstore/store/ingest"
)

// addCategories adds the columns by which models learn vectors.
func (s *typedGraph) addCategories() error {
	for _, c := range ingest.NumberColumns(&s.Desc) {
		s.AddColumn(c.Spec, func(ctx context.Context, _ ingest.Env, emit func([]byte, ingest.Position) error) error {
			return c.Rows(ctx, emit)
		})
		if c.Note != "" {
			s.Desc.Notes = append(s.Desc.Notes, c.Note)
		}
	}
	return nil
}
