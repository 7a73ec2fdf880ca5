package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// report is what a run found, in the order in which it did.
type report struct {
	Started string    `json:"started"`
	Dry     bool      `json:"dry"` // small sizes: its times say nothing
	Checks  []*result `json:"checks"`
	dir     string
}

func (r *report) add(x *result) { r.Checks = append(r.Checks, x) }

func (r *report) failed() (n int) {
	for _, c := range r.Checks {
		if c.Outcome == failed {
			n++
		}
	}
	return n
}

// write writes report.json and report.md.
func (r *report) write() error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(filepath.Join(r.dir, "report.json"), append(b, '\n'), 0o666),
		os.WriteFile(filepath.Join(r.dir, "report.md"), []byte(r.text()), 0o666))
}

// text is the report in Markdown: all outcomes in one table, then what was measured.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# gstore on a GPU, %s\n\n", r.Started)
	if r.Dry {
		b.WriteString("A dry run in small sizes: its times say nothing.\n\n")
	}
	table(&b, []string{"check", "", "outcome", "seconds"}, func(row func(...string)) {
		for _, c := range r.Checks {
			row(c.Name, c.What, c.Outcome, fmt.Sprintf("%.1f", c.Seconds))
		}
	})
	for _, c := range r.Checks {
		if c.Why == "" && len(c.Rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", c.Name)
		if c.Why != "" {
			fmt.Fprintf(&b, "%s:\n\n```\n%s\n```\n\n", c.Outcome, c.Why)
		}
		fmt.Fprintf(&b, "`%s`\n\n", c.Command)
		if len(c.Rows) > 0 {
			table(&b, c.Columns, func(row func(...string)) {
				for _, cells := range c.Rows {
					row(cells...)
				}
			})
		}
	}
	return b.String()
}

// table writes a table in Markdown.
func table(b *strings.Builder, columns []string, rows func(row func(cells ...string))) {
	write := func(cells ...string) {
		for i, c := range cells {
			cells[i] = strings.ReplaceAll(c, "|", "\\|")
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	write(columns...)
	b.WriteString("|" + strings.Repeat("---|", len(columns)) + "\n")
	rows(write)
}
