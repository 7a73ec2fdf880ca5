package training_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestTrainTargets: from tables to predictions by the commands that a user types. Users who buy go on buying.
func TestTrainTargets(t *testing.T) {
	var users, buys strings.Builder
	users.WriteString("id,age\n")
	buys.WriteString("user_id,price,date\n")
	parts := map[string]*strings.Builder{}
	for _, name := range []string{"train", "val", "test"} {
		parts[name] = &strings.Builder{}
		parts[name].WriteString("date,user_id,buys\n")
	}
	for u := range 40 {
		fmt.Fprintf(&users, "%d,%d\n", u, 20+u*7%50)
		for month := 1; month <= 12; month++ {
			if u%2 == 0 {
				fmt.Fprintf(&buys, "%d,%d,2024-%02d-10\n", u, u%9, month)
			}
			part := "train"
			switch month {
			case 11:
				part = "val"
			case 12:
				part = "test"
			}
			fmt.Fprintf(parts[part], "2024-%02d-01,%d,%d\n", month, u, 1-u%2)
		}
	}
	files := map[string][]byte{"shop/users.csv": []byte(users.String()), "shop/buys.csv": []byte(buys.String()),
		"task/manifest.yaml": []byte("name: buys\ntask_type: binary_classification\nentity_table: users\nentity_col: user_id\ntime_col: date\ntarget_col: buys\n"),
		"asked.csv":          []byte("user_id,date\n3,2024-06-01\n4,2025-01-01\n")}
	for name, b := range parts {
		files["task/"+name+".csv"] = []byte(b.String())
	}
	dir := clitest.Put(t, t.TempDir(), files)
	at := func(name string) string { return filepath.Join(dir, name) }
	run := func(args ...string) string {
		t.Helper()
		code, out, stderr := clitest.Run(t, args...)
		if code != cli.ExitOK {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		return out
	}
	schema := run("ingest", at("shop"), "--dry-run", "--format", "database")
	for _, line := range []string{"    key: id\n", "    time: date\n", "      - columns: user_id\n        table: users\n"} {
		if !strings.Contains(schema, line) {
			t.Errorf("the schema lacks %q:\n%s", line, schema)
		}
	}
	clitest.Put(t, dir, map[string][]byte{"schema.yaml": []byte(schema)})
	store := at("s.gstore")
	run("ingest", at("shop"), store, "--schema", at("schema.yaml"), "--quiet")
	if out := run("plan", store, "--targets", at("task"), "--hidden", "8"); !strings.Contains(out, "buys (binary_classification) of table users") || !strings.Contains(out, "smallest --mem that works is ") {
		t.Errorf("plan says %s", out)
	}
	out := strings.Split(strings.TrimSpace(run("train", store, "--targets", at("task"), "--epochs", "4", "--hidden", "8", "--json")), "\n")
	var s struct {
		Event    string
		Protocol string
		Test     struct {
			AUC float64 `json:"roc_auc"`
		}
		Checked int    `json:"checked_rows"`
		Model   string `json:"model_file"`
	}
	if err := json.Unmarshal([]byte(out[len(out)-1]), &s); err != nil || s.Event != "summary" || s.Protocol != "seed" || s.Test.AUC < .9 || s.Checked == 0 {
		t.Errorf("%v: %s", err, out[len(out)-1])
	}
	if m := readMetrics(t, filepath.Join(store, "runs", "1.jsonl")); len(m.Results) != 4 || m.Results[3].ValidAUC == nil || m.End == nil || *m.End.TestAUC != s.Test.AUC {
		t.Errorf("measurements of the run: %+v", m)
	}
	asked := strings.Split(strings.TrimSpace(run("predict", store, "--entities", at("asked.csv"), "--format", "csv")), "\n")
	if len(asked) != 3 || asked[0] != "user_id,date,buys" || !strings.HasPrefix(asked[1], "3,2024-06-01 00:00:00,0.") || !strings.HasPrefix(asked[2], "4,2025-01-01 00:00:00,") {
		t.Errorf("predictions %q", asked)
	}
	named := strings.Split(strings.TrimSpace(run("predict", store, "4", "--at", "2025-01-01", "--format", "csv")), "\n")
	if len(named) != 2 || named[1] != asked[2] {
		t.Errorf("prediction %q, of the table %q", named, asked)
	}
	type scores struct {
		AUC float64 `json:"roc_auc"`
	}
	var tested struct {
		Test     scores
		Constant scores `json:"test_constant"`
		Train    *scores
	}
	if out := run("eval", store, "--json", "--splits", "valid,test"); json.Unmarshal([]byte(out), &tested) != nil || tested.Test.AUC != s.Test.AUC || tested.Constant.AUC != .5 || tested.Train != nil {
		t.Errorf("eval says %s, training %v", out, s.Test)
	}
	clitest.Put(t, dir, map[string][]byte{"shop/users.csv": []byte(users.String() + "40,33\n"), "shop/buys.csv": []byte(buys.String() + "40,3,2024-12-20\n4,7,2025-01-02\n")})
	if out := run("append", store, at("shop")); !strings.Contains(out, "table users: 1 rows are new, 40 are in the store") || !strings.Contains(out, "table buys has no key: 2 rows are later") {
		t.Errorf("append says %s", out)
	}
	if out := run("append", store, at("shop")); !strings.Contains(out, "version 2 stays: no row is new") {
		t.Errorf("a second append says %s", out)
	}
	if later := strings.Split(strings.TrimSpace(run("predict", store, "--entities", at("asked.csv"), "--format", "csv")), "\n"); !slices.Equal(later, asked) {
		t.Errorf("predictions %q, before rows that came later %q", later, asked)
	}
	if out := run("eval", store, "--splits", "test"); !strings.Contains(out, fmt.Sprintf("\ntest: ROC AUC %.4f", s.Test.AUC)) {
		t.Errorf("eval after rows came says %s", out)
	}
	if out := run("predict", store, "40", "--at", "2025-01-01", "--format", "csv"); !strings.Contains(out, "\n40,2025-01-01 00:00:00,0.") {
		t.Errorf("prediction of a row that came after training: %s", out)
	}
	run("ingest", at("shop"), at("anew.gstore"), "--schema", at("schema.yaml"), "--quiet")
	for args, want := range map[string]string{
		"predict " + at("anew.gstore") + " 4 --at 2025-01-01 --checkpoint " + s.Model:             "have other scales or categories than those that the model",
		"append " + store + " " + at("shop") + " --update":                                        "stay as they are there",
		"append " + store + " " + at("shop") + " --keyless some":                                  "expected one of [later all rest]",
		"append " + store + " " + at("asked.csv") + " --keyless all":                              "go with format database",
		"predict " + store + " 4":                                                                 "--at says as of when",
		"predict " + store + " 77 --at 2025-01-01":                                                `no row of key "77"`,
		"predict " + store + " --at soon 4":                                                       `"soon" is no moment`,
		"train " + store + " --task targets":                                                      "--targets",
		"plan " + store + " --task targets":                                                       "--targets",
		"plan " + store + " --targets " + at("task") + " --steps":                                 "--steps is for plans of several steps",
		"plan " + store + " --targets " + at("task") + " --mem 8MiB":                              "budget",
		"train " + store + " --targets " + at("shop"):                                             "manifest.yaml",
		"train " + store + " --targets " + at("task") + " --layers 2":                             "--layers",
		"train " + store + " --targets " + at("task") + " --tensorboard x":                        "--tensorboard is not for targets of rows",
		"train " + store + " --targets " + at("task") + " --mem 8MiB":                             "budget",
		"eval " + store + " --confusion -":                                                        "--confusion is not for models of targets of rows",
		"ingest " + at("shop") + " " + at("t.gstore") + " --format database --dangling sometimes": "sometimes",
		"ingest " + at("asked.csv") + " " + at("t.gstore") + " --dangling error":                  "go with format database",
		"ingest " + at("shop") + " " + at("t.gstore") + " --schema " + at("none"):                 "none",
	} {
		if code, _, stderr := clitest.Run(t, strings.Fields(args)...); code == cli.ExitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s, expected %q", args, code, stderr, want)
		}
	}
	for k, rows := range [][]byte{[]byte("date,user_id\n2024-12-01,3\n"), nil} { // of test nothing is known yet, or there is no table
		if clitest.Put(t, dir, map[string][]byte{"task/test.csv": rows}); rows == nil {
			if err := os.Remove(at("task/test.csv")); err != nil {
				t.Fatal(err)
			}
		}
		if out := run("train", store, "--targets", at("task"), "--epochs", "1", "--hidden", "8"); !strings.Contains(out, "no row of part test has a target") || !strings.Contains(out, "\nvalidation of buys, ") {
			t.Errorf("without targets of part test training says %s", out)
		}
		if m := readMetrics(t, filepath.Join(store, "runs", fmt.Sprintf("%d.jsonl", 2+k))); m.End == nil || m.End.TestAUC != nil || m.End.ValidAUC == nil {
			t.Errorf("without targets of part test measurements are %+v", m.End)
		}
		if out := run("eval", store, "--splits", "test"); !strings.Contains(out, "no row of part test has a target") {
			t.Errorf("without targets of part test eval says %s", out)
		}
	}
}

// TestRecommend: rows of a table are recommended by the commands that a user types; each user buys one thing again and again.
func TestRecommend(t *testing.T) {
	var users, items, buys strings.Builder
	users.WriteString("user_id,age\n")
	items.WriteString("item_id,price\n")
	buys.WriteString("user_id,item_id,at\n")
	parts := map[string]*strings.Builder{}
	for _, name := range []string{"train", "val", "test"} {
		parts[name] = &strings.Builder{}
		parts[name].WriteString("at,user_id,item_id\n")
	}
	for i := range 20 {
		fmt.Fprintf(&items, "%d,%d\n", i, 1+i*7%5)
	}
	for u := range 40 {
		fmt.Fprintf(&users, "%d,%d\n", u, 20+u*7%50)
		for month := 1; month <= 12; month++ {
			fmt.Fprintf(&buys, "%d,%d,2024-%02d-10\n", u, u*3%20, month)
			name := map[int]string{11: "val", 12: "test"}[month]
			if name == "" {
				name = "train"
			}
			if month > 1 {
				fmt.Fprintf(parts[name], "2024-%02d-01,%d,%d\n", month, u, u*3%20)
			}
		}
	}
	files := map[string][]byte{"shop/users.csv": []byte(users.String()), "shop/items.csv": []byte(items.String()), "shop/buys.csv": []byte(buys.String()),
		"task/manifest.yaml": []byte("task_type: recommendation\nentity_table: users\nentity_col: user_id\ndst_entity_table: items\ntime_col: at\ntarget_col: item_id\neval_k: 3\n")}
	for name, b := range parts {
		files["task/"+name+".csv"] = []byte(b.String())
	}
	dir := clitest.Put(t, t.TempDir(), files)
	store, task := filepath.Join(dir, "s.gstore"), filepath.Join(dir, "task")
	clitest.MustRun(t, "ingest", filepath.Join(dir, "shop"), store, "--format", "database", "--quiet")
	if _, out, _ := clitest.Run(t, "train", store, "--targets", task, "--epochs", "8", "--hidden", "8"); !strings.Contains(out, "test of task, protocol seed") || !strings.Contains(out, "MAP@k ") {
		t.Errorf("training says %s", out)
	}
	ask := func(args ...string) []string {
		_, out, _ := clitest.Run(t, append([]string{"predict", store, "2", "3", "--at", "2025-01-01", "--format", "csv"}, args...)...)
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	if got := ask(); len(got) != 1+2*3 || got[0] != "user_id,at,rank,item_id,score" || !strings.HasPrefix(got[1], "2,2025-01-01 00:00:00,1,6,") || !strings.HasPrefix(got[4], "3,2025-01-01 00:00:00,1,9,") {
		t.Errorf("recommended are %q", got)
	}
	if got := ask("--top", "1", "--filter", "known"); len(got) != 3 || strings.HasPrefix(got[1], "2,2025-01-01 00:00:00,1,6,") {
		t.Errorf("new ones are %q", got)
	}
}
