package models

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/table"
)

// Best is what the model that was best on validation is called.
const Best = "best"

// FindTable returns the table of embeddings that name means, and says which one it is: that of a name, of a run by its number, or [Best] for
// that of the run that was best on validation edges.
func FindTable(ctx context.Context, st *store.Store, name string) (found, which string, err error) {
	infos, err := table.Describe(ctx, st.Dir(), store.Options{})
	if err != nil {
		return "", "", err
	}
	var names []string
	for _, t := range infos {
		if !t.Some { // vectors that a model of nodes learned
			names = append(names, t.Name)
		}
	}
	number, err := strconv.ParseUint(name, 10, 64)
	if slices.Contains(names, name) || name != Best && err != nil {
		return name, "table " + name, nil
	}
	h, err := store.ReadHistory(ctx, st.Dir(), store.Options{})
	if err != nil {
		return "", "", err
	}
	var best struct {
		run uint64
		mrr float64
	}
	replaced := map[string]uint64{} // by table: the run that it is of
	for _, r := range slices.Backward(h.Runs) {
		s := struct {
			Table string  `json:"table"`
			MRR   float64 `json:"valid_mrr"`
		}{MRR: -1}
		if r.Command != "train" || json.Unmarshal(r.Summary, &s) != nil || !slices.Contains(names, s.Table) {
			continue
		}
		by, ok := replaced[s.Table]
		if !ok {
			replaced[s.Table] = r.Number
		}
		switch {
		case name != Best && r.Number == number && ok:
			return "", "", fmt.Errorf("%w: table %s of run %d is that of run %d now", store.ErrNotFound, s.Table, number, by)
		case name != Best && r.Number == number:
			return s.Table, fmt.Sprintf("run %d, table %s", number, s.Table), nil
		case name == Best && !ok && (best.run == 0 || s.MRR > best.mrr):
			best.run, best.mrr, found = r.Number, s.MRR, s.Table
		}
	}
	switch {
	case found != "":
		return found, fmt.Sprintf("run %d, table %s", best.run, found), nil
	case len(names) == 0:
		return "", "", fmt.Errorf("%w: %s has no table of embeddings: run gstore train %[2]s", store.ErrNotFound, st.Dir())
	}
	return "", "", fmt.Errorf("%w: no finished run is %s: name a table, one of %s", store.ErrNotFound, name, strings.Join(names, ", "))
}

// NextTable is the name of the table of a run that begins with table from on a version of the store: from's with the version behind it.
func NextTable(from string, version uint64) string {
	if at := strings.LastIndex(from, "-v"); at > 0 {
		if _, err := strconv.ParseUint(from[at+2:], 10, 64); err == nil {
			from = from[:at]
		}
	}
	return fmt.Sprintf("%s-v%d", from, version)
}
