package database_test

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// TestLabel: one column of a database is learned, numbers or classes; it is no feature, the schema says so, rows to come are labelled by the
// classes of the store, and what cannot be learned is refused.
func TestLabel(t *testing.T) {
	open := func(files map[string]string, label string) (ingest.Source, error) {
		o := formats.Options{Format: "database"}
		if label != "" {
			o.Text.Label = []string{label}
		}
		return formats.Open(folder(t, files), o)
	}
	folderAlone := folder(t, map[string]string{"a.csv": "a_id,kind\n1,x\n2,y\n", "b.csv": "a_id\n1\n2\n"})
	found, err := formats.Open(folderAlone, formats.Options{Text: formats.TextOptions{Label: []string{"a.kind"}}}) // says that they are tables of a database
	if err != nil || len(found.Describe().ClassNames) != 2 || found.Describe().Format != "database" {
		t.Errorf("tables in a folder, one of which has the label: %v", err)
	} else if err := found.Close(); err != nil {
		t.Fatal(err)
	}
	src, err := open(grown(), "people.city")
	if err != nil {
		t.Fatal(err)
	}
	d := src.Describe()
	if len(d.ClassNames) != 2 || d.ClassNames[0] != "Oslo" || d.Task != store.TaskNode || !strings.Contains(d.Schema, "city: label") {
		t.Errorf("classes %q, task %q, schema\n%s", d.ClassNames, d.Task, d.Schema)
	}
	for _, c := range d.NodeColumns {
		if strings.Contains(c.Name, "city") {
			t.Errorf("column %s is made of the label", c.Name)
		}
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}
	if src, err = open(grown(), "total"); err != nil {
		t.Fatal(err)
	}
	if d := src.Describe(); d.ClassNames != nil || d.Task != store.TaskNode {
		t.Errorf("numbers: classes %q, task %q", d.ClassNames, d.Task)
	}
	if err := src.Close(); err != nil {
		t.Fatal(err)
	}

	files := maps.Clone(began)
	files["schema.yaml"] = strings.Replace(kinds, "city: category", "city: label", 1)
	dir := ingested(t, files)
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := st.Manifest()
	if m.Schema.Classes != 2 || m.Labels() == nil || m.Labels().NodeType != "people" {
		t.Errorf("the store has %d classes, labels %+v", m.Schema.Classes, m.Labels())
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := added(t, dir, folder(t, came), formats.Options{Keyless: database.All}); err != nil {
		t.Fatal(err)
	}
	other := maps.Clone(came)
	other["people.csv"] = "person_id,name,boss,vip,since,city\ned,Ed,,False,2000-01-01,Bergen\n"
	if _, _, err := added(t, dir, folder(t, other), formats.Options{Keyless: database.All}); err == nil || !strings.Contains(err.Error(), `label "Bergen", which none of the classes is called`) {
		t.Errorf("a class that the store does not have: %v", err)
	}

	for name, c := range map[string]struct{ label, want string }{
		"none": {"people.nix", "no column is called so"}, "several": {"order", "tables have several columns of that name"},
		"a key": {"people.person_id", "part of a key"}, "a time": {"order.day", "a time or part of a key"},
	} {
		if src, err := open(grown(), c.label); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v", name, src, err)
		}
	}
	files["schema.yaml"] = strings.Replace(files["schema.yaml"], "total: number", "total: label", 1)
	if _, err := open(files, ""); err == nil || !strings.Contains(err.Error(), "second one of labels") {
		t.Errorf("two labels: %v", err)
	}
	if _, err := database.ParseSchema("x", []byte("tables: {a: {implied: true, time: t}}")); err == nil {
		t.Error("an implied table with a time was accepted")
	}
	if !database.HasTable("tables: {b: {}}", vfs.Default, filepath.Join("x", "b.csv")) || database.HasTable("tables: {b: {}}", vfs.Default, "c.csv") {
		t.Error("a schema of table b has a table that b.csv is called by, and none of c.csv")
	}
}
