package data_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestAppendSaysRelations: edges that are appended are of the relation that a column names, in full or by what is between the types; else of
// the one that their file is called by, or of the only one. A relation that the store does not have is told.
func TestAppendSaysRelations(t *testing.T) {
	made := func(edges ...string) string {
		files := map[string][]byte{"nodes/user.csv": []byte("user_id,age,label\nu1,20,a\nu2,30,b\nu3,40,a\n")}
		for _, name := range edges {
			files["edges/"+name] = []byte("user_id,item_id\nu1,i1\nu2,i2\nu3,i1\n")
		}
		dir := filepath.Join(t.TempDir(), "shop.gstore")
		clitest.Events(t, "ingest", clitest.Put(t, t.TempDir(), files), dir)
		return dir
	}
	one, two := []string{"user-bought-item.csv"}, []string{"user-bought-item.csv", "user-saw-item.csv"}
	for _, c := range []struct {
		of         []string
		file, text string
		count      string // of a relation afterwards; "": it is refused
		says       string
	}{
		{one, "week.csv", "user_id,item_id\nu1,i2\n", "user:bought:item (4 edges)", ""},
		{one, "week.csv", "user_id,item_id,relation\nu1,i2,bought\n", "user:bought:item (4 edges)", ""},
		{one, "week.csv", "user_id,item_id,relation\nu1,i2,user:bought:item\n", "user:bought:item (4 edges)", ""},
		{one, "week.csv", "user_id,item_id,relation\nu1,i2,returned\n", "returned (1 edges)", "relation returned is new"},
		{two, "user-saw-item.csv", "user_id,item_id\nu1,i2\n", "user:saw:item (4 edges)", ""},
		{two, "saw.csv", "user_id,item_id\nu1,i2\n", "user:saw:item (4 edges)", ""},
		{two, "week.csv", "user_id,item_id\nu1,i2\n", "", "the file is called by it (user-bought-item)"},
	} {
		dir := made(c.of...)
		code, out, errs := clitest.Run(t, "append", dir, filepath.Join(clitest.Put(t, t.TempDir(), map[string][]byte{c.file: []byte(c.text)}), c.file))
		if c.count == "" {
			if code == cli.ExitOK || !strings.Contains(errs, c.says) {
				t.Errorf("%s %q: exit %d: %s", c.file, c.text, code, errs)
			}
			continue
		}
		if code != cli.ExitOK || !strings.Contains(out, c.says) || c.says == "" && strings.Contains(out, "is new:") {
			t.Errorf("%s %q: exit %d: %s%s", c.file, c.text, code, out, errs)
		}
		st, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		has := false
		for _, r := range st.Manifest().Schema.Relations {
			has = has || fmt.Sprintf("%s (%d edges)", r.Name, r.Count) == c.count
		}
		if !has {
			t.Errorf("%s %q: expected %s in %+v", c.file, c.text, c.count, st.Manifest().Schema.Relations)
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
