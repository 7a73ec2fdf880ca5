package training

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// checkColumns refuses features and a split, "" for the first one, that a store does not have. Means of neighbours, x.hop1, may be made
// first: training says how.
func checkColumns(m *store.Manifest, features []string, split string) error {
	for _, name := range features {
		if _, err := m.Column(name); err != nil && !strings.Contains(name, ".hop") {
			return noColumn("features", name, "features", m.ColumnNames(store.RoleFeature))
		}
	}
	if splits := m.ColumnNames(store.RoleSplit); split != "" && !slices.Contains(splits, split) {
		return noColumn("split", split, "splits", splits)
	}
	return nil
}

// noColumn refuses a flag's name of a column of some kind, with those that there are.
func noColumn(flag, name, kind string, there []string) error {
	text := fmt.Sprintf("the store's %s are %s", kind, strings.Join(there, ", "))
	if len(there) == 0 {
		text = "the store has no " + kind
	}
	if near := options.Nearest(name, there); near != "" {
		text += fmt.Sprintf(": did you mean %s?", near)
	}
	return command.Usagef("--%s %s: %s", flag, name, text)
}
