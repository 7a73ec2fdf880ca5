package train

import (
	"testing"

	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// TestCheckLabels: a model answers on stores whose labels are of its kind, and on those without, but scores itself on the first alone.
func TestCheckLabels(t *testing.T) {
	column := func(c store.ColumnInfo) []store.ColumnInfo {
		c.Name, c.Role = "label", store.RoleLabel
		return []store.ColumnInfo{c}
	}
	stores := map[string]*store.Manifest{
		"none":    {},
		"classes": {Schema: store.Schema{Classes: 3}, Columns: column(store.ColumnInfo{})},
		"numbers": {Columns: column(store.ColumnInfo{Numbers: true})},
		"sets":    {Schema: store.Schema{Classes: 3}, Columns: column(store.ColumnInfo{Sets: []byte{0, 1, 5}})},
	}
	for kind, model := range map[string]nn.Config{"classes": {Out: 3}, "numbers": {Out: 1, Numbers: &nn.NumberScale{}}, "sets": {Out: 3, MultiLabel: true}} {
		c := &Checkpoint{Model: model}
		for labels, m := range stores {
			if err := c.checkLabels(m, false); (err == nil) != (labels == kind || labels == "none") {
				t.Errorf("a model of %s on a store with labels of %s: %v", kind, labels, err)
			}
			if err := c.checkLabels(m, true); (err == nil) != (labels == kind) {
				t.Errorf("a model of %s scored on a store with labels of %s: %v", kind, labels, err)
			}
		}
	}
	if err := (&Checkpoint{Model: nn.Config{Out: 4}}).checkLabels(stores["classes"], false); err == nil {
		t.Error("a model of 4 classes on a store of 3 is accepted")
	}
}
