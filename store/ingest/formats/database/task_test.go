package database_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/gstore/gstore/store/ingest/formats/database"
)

// Classes, labels and lists of rows are read from text in every form that people write, and from lists of Parquet, of which an empty one
// is known and a missing one is not.
func TestWordsOfTasks(t *testing.T) {
	const head = "entity_table: users\nentity_col: u\ntime_col: at\ntarget_col: y\ntask_type: "
	for _, test := range []struct{ kind, csv, want string }{
		{"multiclass_classification", "1,red\n2,\n3,7.0\n4,\"dark blue\"\n", "[red] true [] false [7.0] true [dark blue] true"},
		{"multiclass_classification", "1,3\n2,\n3,7\n", "[3] true [] false [7] true"},
		{"multilabel_classification", "1,red|dark blue\n2,[]\n3,\n4,\"['a', \"\"b c\"\"]\"\n5,x;y\n6,[1 2]\n", "[red dark blue] true [] true [] false [a b c] true [x y] true [1 2] true"},
		{"recommendation\ndst_entity_table: items", "1,7 8\n2,[]\n3,\n4,\"[9,10]\"\n", "[items:7 items:8] true [] false [] false [items:9 items:10] true"},
	} {
		dir := t.TempDir()
		put := func(name, text string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		put("manifest.yaml", head+test.kind+"\n")
		var rows strings.Builder
		for line := range strings.Lines(test.csv) {
			rows.WriteString("2020-01-01," + line)
		}
		put("train.csv", "at,u,y\n"+rows.String())
		if got := told(t, dir); got != test.want {
			t.Errorf("%s of\n%s: %s, expected %s", test.kind, test.csv, got, test.want)
		}
	}
	dir := t.TempDir()
	type row struct {
		At int64   `parquet:"at"`
		U  int64   `parquet:"u"`
		Y  []int64 `parquet:"y,list,optional"`
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.yaml"), []byte("entity_table: users\nentity_col: u\ntime_col: at\ntarget_col: y\ntask_type: multilabel_classification\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := parquet.WriteFile(filepath.Join(dir, "train.parquet"), []row{{1, 1, []int64{7, 8, 9}}, {2, 2, nil}, {3, 3, []int64{5}}, {4, 4, []int64{1, 2}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := told(t, dir), "[7 8 9] true [] false [5] true [1 2] true"; got != want {
		t.Errorf("lists of Parquet: %s, expected %s", got, want)
	}
}

// told is what the training part of a task asks for, and whether it is known.
func told(t *testing.T, dir string) string {
	t.Helper()
	task, err := database.OpenTask(nil, dir)
	if err != nil {
		t.Fatal(err)
	}
	part, err := task.Read(t.Context(), "train")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i, words := range part.Words {
		all = append(all, fmt.Sprint(words, !math.IsNaN(part.Values[i])))
	}
	return strings.Join(all, " ")
}

// TestWindows: a task's window is read as pandas and Python write spans of time.
func TestWindows(t *testing.T) {
	for text, want := range map[string]int64{"": 0, "30 days": 30 * 86400, "1 day": 86400, "1 days 12:00:00": 129600, "7 days, 0:00:00": 604800, "12:00:00": 43200,
		"0 days 04:00:00.500000": 14400, "4 hours": 14400, "2 weeks 1 day": 1296000, "1 Min": 60, "90 minutes": 5400, "1 month": -1, "2 days 3": -1, "1 2 days": -1,
		"0:00:00": -1, "0 days": -1, "-3 days": -1, "30": -1, "days": -1, "soon": -1, "3 daysx": -1, "99999999999 days": -1} {
		manifest := "task_type: regression\nentity_table: users\nentity_col: user\ntime_col: at\ntarget_col: n\ntimedelta: " + text + "\n"
		task, err := database.ParseTask("manifest.yaml", []byte(manifest))
		if (err == nil) != (want >= 0) || err == nil && task.Window != want || err != nil && !strings.Contains(err.Error(), "timedelta") {
			t.Errorf("%q is %+v, %v, expected %d seconds", text, task, err, want)
		}
	}
}
