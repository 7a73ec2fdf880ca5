package tables

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest/formats/table"
)

// TestEndsByRows: where columns of ends are not called by types, the tables that have rows for them say of which types they are, in whatever
// order they are named.
func TestEndsByRows(t *testing.T) {
	fs := vfs.NewMem()
	put := func(name, text string) {
		t.Helper()
		f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	rows := func(prefix string, n int) string {
		text := "id,x\n"
		for i := range n {
			text += fmt.Sprintf("%s%d,%d\n", prefix, i, i%7)
		}
		return text
	}
	put("named-users", rows("u", 40))
	put("named-items", rows("i", 9))
	put("numbered-users", rows("", 40))
	put("numbered-items", rows("", 9))
	put("shops", rows("s", 5))
	for _, c := range []struct {
		kind, header string
		tables       []string // of types user, item, shop
		src, dst     string
		shops        bool
	}{
		{"named", "src,dst", []string{"user", "item"}, "user", "item", false},
		{"named", "src,dst", []string{"item", "user"}, "user", "item", false},
		{"numbered", "src,dst", []string{"user", "item"}, "user", "item", false},
		{"numbered", "src,dst", []string{"item", "user"}, "user", "item", false},
		{"named", "src,dst", []string{"item", "user", "shop"}, "user", "item", false},
		{"named", "src,dst", []string{"shop", "item", "user"}, "user", "shop", true},
		{"named", "item_id,user_id", []string{"user", "item"}, "item", "user", false}, // columns say it, rows or none
	} {
		prefix := map[string]string{"named": "%[1]s%[2]d", "numbered": "%[2]d"}[c.kind]
		text := c.header + "\n"
		for i := range 200 {
			dst := fmt.Sprintf(prefix, "i", i%9)
			if c.shops {
				dst = fmt.Sprintf("s%d", i%5)
			}
			text += fmt.Sprintf(prefix, "u", i%40) + "," + dst + "\n"
		}
		put("edges.csv", text)
		var nodes []string
		for _, kind := range c.tables {
			nodes = append(nodes, kind+"="+map[string]string{"user": c.kind + "-users", "item": c.kind + "-items", "shop": "shops"}[kind])
		}
		src, err := OpenEdges(fs, "edges.csv", "csv", table.Options{}, nodes, nil)
		if err != nil {
			t.Errorf("%s %s %q: %v", c.kind, c.header, c.tables, err)
			continue
		}
		for _, u := range src.Describe().Uses {
			if want := map[string]string{"source": c.src, "destination": c.dst}; u.File == "edges.csv" && u.As != "source of type "+want["source"] && u.As != "destination of type "+want["destination"] {
				t.Errorf("%s %s %q: %s is %s, expected edges from %s to %s", c.kind, c.header, c.tables, u.Column, u.As, c.src, c.dst)
			}
		}
		if err := src.Close(); err != nil {
			t.Error(err)
		}
	}
}
