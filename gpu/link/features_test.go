package link

import (
	"errors"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// TestCheckStore: features and the relation are the store's, a relation by what is between the types in its name too; none is named twice.
func TestCheckStore(t *testing.T) {
	m := &store.Manifest{Schema: store.Schema{Relations: []store.Relation{{Name: "user:buys:item"}, {Name: "user:knows:user"}}},
		Columns: []store.ColumnInfo{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 2}, {Name: "label", Role: store.RoleLabel, Elem: blocks.Int32, Dim: 1}}}
	for _, relation := range []string{"knows", "user:knows:user"} {
		c := Config{Features: []string{"x"}, Relation: relation}
		if err := c.CheckStore(m); err != nil {
			t.Errorf("%s: %v", relation, err)
		}
		if r, err := c.predicted(m); err != nil || *r != 1 {
			t.Errorf("%s is relation %v, %v", relation, r, err)
		}
	}
	for want, c := range map[string]struct {
		Config
		is error
	}{
		"named twice":        {Config{Features: []string{"x", "x"}}, store.ErrInvalid},
		"role label":         {Config{Features: []string{"label"}}, nil},
		`no relation "sells`: {Config{Relation: "sells"}, store.ErrNotFound},
	} {
		if err := c.CheckStore(m); err == nil || !strings.Contains(err.Error(), want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%q expected, error %v", want, err)
		}
	}
}
