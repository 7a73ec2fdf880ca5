package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/gstore/gstore/store"
)

// PrintUses says what every column of a version's input became, and what else its reader has to know.
func PrintUses(w io.Writer, m *store.Manifest) {
	for _, key := range []string{"columns", "notes"} {
		for line := range strings.Lines(m.Ingest[key]) {
			fmt.Fprintf(w, "  %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
}
