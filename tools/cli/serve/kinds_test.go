package serve_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// rows runs gstore predict and returns its CSV without the header.
func rows(t *testing.T, args ...string) [][]string {
	t.Helper()
	code, out, errs := clitest.Run(t, append([]string{"predict", "--format", "csv", "--quiet"}, args...)...)
	if code != 0 {
		t.Fatalf("gstore predict %v: %s", args, errs)
	}
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return lines[1:]
}

// best are answers to questions.
type best struct {
	Answers []struct {
		Head, Tail, Node any
		Best             []struct {
			ID    any
			Score float64
		}
	}
}

// TestLinks: links and similar nodes are those of gstore predict, whoever else asks.
func TestLinks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.MustRun(t, "demo", "--task", "link", "--dir", dir, "--epochs", "1", "--quiet")
	for _, flags := range [][]string{nil, {"--mem", "300MiB"}} {
		s := serve(t, append([]string{dir}, flags...)...)
		relations := ask[struct{ Relations []struct{ Name string } }](s, "GET", "/v1/store", "").Relations
		var wg sync.WaitGroup
		for k := range 3 {
			relation := relations[k].Name
			wg.Go(func() {
				for _, q := range []struct {
					head, tail string
					known      bool
				}{{"5", "?", false}, {"?", "7", true}} {
					want := rows(t, dir, q.head, relation, q.tail, "--top", "4", "--filter",
						map[bool]string{false: "none", true: "known"}[q.known])
					got := ask[best](s, "POST", "/v1/links",
						fmt.Sprintf(`{"questions": [{"head": %q, "relation": %q, "tail": %q}, {"head": "1", "relation": %q, "tail": "?"}], "top": 4, "known": %q}`,
							q.head, relation, q.tail, relation, map[bool]string{false: "keep", true: "leave_out"}[q.known]))
					for i, b := range got.Answers[0].Best {
						end := want[i][4]
						if q.head == "?" {
							end = want[i][2]
						}
						score, err := strconv.ParseFloat(want[i][5], 64)
						if err != nil || fmt.Sprint(b.ID) != end || math.Abs(score-b.Score) > 1e-5*math.Abs(score) {
							t.Errorf("%v %s: answer %d is %+v, expected %v", q, relation, i, b, want[i])
						}
					}
					if len(got.Answers) != 2 || len(got.Answers[0].Best) != 4 || len(got.Answers[1].Best) != 4 {
						t.Errorf("%v: %+v", q, got)
					}
				}
			})
		}
		wg.Wait()
		for _, by := range []string{"cosine", "dot"} {
			want := rows(t, dir, "9", "--nearest", by, "--top", "5")
			got := ask[best](s, "POST", "/v1/nearest", fmt.Sprintf(`{"nodes": [9], "by": %q, "top": 5}`, by))
			for i, b := range got.Answers[0].Best {
				if fmt.Sprint(b.ID) != want[i][2] {
					t.Errorf("nearest to 9 by %s: answer %d is %+v, expected %v", by, i, b, want[i])
				}
			}
		}
		s.dots([]any{9, 3}, ask[best](s, "POST", "/v1/nearest", `{"nodes": [9, 3], "by": "dot", "top": 5}`))
		if text := s.page("/map"); strings.Count(text, `<a href="/?id=`) < 100 {
			t.Errorf("the map: %s", withoutStyle(text))
		}
		if status, text := s.do("POST", "/v1/links", `{"questions": [{"head": "1", "relation": "no", "tail": "?"}]}`); status != 400 || !strings.Contains(text, "no relation") {
			t.Errorf("status %d: %s", status, text)
		}
		if status, text := s.do("POST", "/v1/links", `{"questions": [{"head": "1", "relation": "r", "tail": "2"}]}`); status != 400 {
			t.Errorf("nothing is asked for: status %d: %s", status, text)
		}
		s.end()
	}
}

// TestTargets: what is said of rows of a database as of a day is what gstore predict says, the second time too; rows that come later count from
// then on.
func TestTargets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shop.gstore")
	clitest.MustRun(t, "demo", "--task", "relational", "--dir", dir, "--epochs", "1", "--quiet")
	code, _, errs := clitest.Run(t, "serve", dir, "--mem", "400MiB", "--listen", "127.0.0.1:0")
	_, least, _ := strings.Cut(strings.TrimSpace(errs), "the smallest --mem that works is ")
	if code != 1 || least == "" {
		t.Fatalf("within 400 MiB: exit code %d: %s", code, errs)
	}
	for _, flags := range [][]string{nil, {"--mem", least}} {
		s := serve(t, append([]string{dir}, flags...)...)
		for _, at := range []string{"2025-12-31", "2025-06-30", "2025-12-31"} {
			want := rows(t, dir, "1", "2", "300", "--at", at)
			got := ask[struct {
				Table, At string
				Rows      []struct {
					Row   string
					Value float64
				}
			}](s, "POST", "/v1/targets", fmt.Sprintf(`{"rows": [1, "2", "300"], "at": %q}`, at))
			for i, r := range got.Rows {
				x, err := strconv.ParseFloat(want[i][2], 64)
				if err != nil || r.Row != want[i][0] || math.Abs(r.Value-x) > 1e-6 {
					t.Errorf("%s: row %d: %+v, expected %v", at, i, r, want[i])
				}
			}
			if len(got.Rows) != 3 || !strings.HasPrefix(got.At, at) {
				t.Errorf("%s: %+v", at, got)
			}
		}
		if now := ask[struct{ At time.Time }](s, "POST", "/v1/targets",
			`{"rows": [1]}`); time.Since(now.At) > time.Minute {
			t.Errorf("no moment is as of %v", now.At)
		}
		for body, says := range map[string]string{`{"rows": [999999]}`: "no node",
			`{"rows": [1], "at": "tomorrow"}`: "at:", `{"rows": [1], "top": 3}`: "recommendations",
			`{"rows": []}`: "no node is named"} {
			if status, text := s.do("POST", "/v1/targets", body); status < 400 || status >= 500 || !strings.Contains(text, says) {
				t.Errorf("%s: status %d: %s", body, status, text)
			}
		}
		if status, text := s.do("POST", "/v1/recommend", `{"rows": [1]}`); status != 400 || !strings.Contains(text, "/v1/targets") {
			t.Errorf("status %d: %s", status, text)
		}
		s.end()
	}
}

// described checks a JSON value against a schema of the server's description.
func described(t *testing.T, where string, v any, schema, schemas map[string]any) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = schemas[strings.TrimPrefix(ref, "#/components/schemas/")].(map[string]any)
	}
	kinds := map[string]bool{}
	switch kind := schema["type"].(type) {
	case string:
		kinds[kind] = true
	case []any:
		for _, k := range kind {
			kinds[k.(string)] = true
		}
	default:
		return // anything
	}
	switch v := v.(type) {
	case map[string]any:
		if !kinds["object"] {
			t.Errorf("%s: %v, expected %v", where, v, schema)
			return
		}
		fields, _ := schema["properties"].(map[string]any)
		more, _ := schema["additionalProperties"].(map[string]any)
		for name, x := range v {
			of, ok := fields[name].(map[string]any)
			if !ok {
				of = more
			}
			if of == nil {
				t.Errorf("%s: field %s is not described", where, name)
				continue
			}
			described(t, where+"."+name, x, of, schemas)
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				t.Errorf("%s: field %s is missing", where, name)
			}
		}
	case []any:
		items, _ := schema["items"].(map[string]any)
		if !kinds["array"] {
			t.Errorf("%s: a list, expected %v", where, schema)
		}
		for i, x := range v {
			described(t, fmt.Sprintf("%s[%d]", where, i), x, items, schemas)
		}
	case string:
		if !kinds["string"] {
			t.Errorf("%s: %q, expected %v", where, v, schema)
		}
	case float64:
		if !kinds["number"] && !(kinds["integer"] && v == math.Trunc(v)) {
			t.Errorf("%s: %v, expected %v", where, v, schema)
		}
	case bool:
		if !kinds["boolean"] {
			t.Errorf("%s: %v, expected %v", where, v, schema)
		}
	case nil:
		t.Errorf("%s: null, expected %v", where, schema)
	}
}

// TestDescription: every request that is described is answered as it is described to be, with its example or one of the store's own ids.
func TestDescription(t *testing.T) {
	people := makePeople(40)
	nodes := people.store(t, 40)
	links := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.MustRun(t, "demo", "--task", "link", "--dir", links, "--epochs", "1", "--quiet")
	shop := filepath.Join(t.TempDir(), "shop.gstore")
	clitest.MustRun(t, "demo", "--task", "relational", "--dir", shop, "--epochs", "1", "--quiet")
	answered := map[string]bool{}
	var all []string
	for dir, change := range map[string]*strings.Replacer{nodes: strings.NewReplacer("12", `"p12"`, "15", `"p15"`),
		links: strings.NewReplacer("paris", "5", "capital_of", "r0"), shop: strings.NewReplacer()} {
		s := serve(t, dir)
		doc := ask[struct {
			Paths      map[string]map[string]map[string]any
			Components struct{ Schemas map[string]any }
		}](s, "GET", "/openapi.json", "")
		relation := ""
		if r := ask[struct{ Relations []struct{ Name string } }](s, "GET", "/v1/store", "").Relations; len(r) > 0 {
			relation = r[0].Name
		}
		all = nil
		for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
			for method, o := range doc.Paths[path] {
				key := strings.ToUpper(method) + " " + path
				all = append(all, key)
				body, query := "", ""
				if b, ok := o["requestBody"].(map[string]any); ok {
					content := b["content"].(map[string]any)["application/json"].(map[string]any)
					described(t, key+" request", content["example"], content["schema"].(map[string]any),
						doc.Components.Schemas)
					body = strings.ReplaceAll(change.Replace(clitest.MustJSON(t, content["example"])), `"r0"`,
						strconv.Quote(relation))
				}
				for _, p := range asList(o["parameters"]) {
					if x, ok := p.(map[string]any)["example"].(string); ok {
						query = "?id=" + strings.Trim(change.Replace(x), `"`)
					}
				}
				status, text := s.do(strings.ToUpper(method), path+query, body)
				if status != http.StatusOK {
					continue // of another kind of model
				}
				answered[key] = true
				response := o["responses"].(map[string]any)["200"].(map[string]any)
				content, ok := response["content"].(map[string]any)
				if !ok {
					continue
				}
				var v any
				if err := json.Unmarshal([]byte(text), &v); err != nil {
					t.Fatal(err)
				}
				described(t, key, v, content["application/json"].(map[string]any)["schema"].(map[string]any),
					doc.Components.Schemas)
			}
		}
		s.end()
	}
	for _, key := range all {
		if !answered[key] && key != "POST /v1/recommend" { // which no small store has a model for
			t.Errorf("%s was not answered in any store", key)
		}
	}
	if len(all) < 14 {
		t.Errorf("%v are described", all)
	}
}

func asList(v any) []any {
	list, _ := v.([]any)
	return list
}

// FuzzRequests: whatever is sent, the answer is JSON of no fault of the server's.
func FuzzRequests(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "s.gstore")
	nodes, edges := makePeople(30).write(f, 0, 30)
	for _, args := range [][]string{{"ingest", edges, dir, "--nodes", nodes, "--use", "city", "--quiet"},
		{"train", dir, "--epochs", "1", "--quiet"}} {
		var errs bytes.Buffer
		if code := cli.Run(f.Context(), args, strings.NewReader(""), io.Discard, &errs); code != 0 {
			f.Fatalf("gstore %v: %s", args, errs.String())
		}
	}
	s := serveUntil(f, dir, "--log", "errors")
	for _, body := range []string{`{"nodes": ["p1"]}`, `{"new": [{"id": "n", "features": {"age": 3, "city": "Bern", "x": [1, 2, 3]}}], "edges": [{"src": "n", "dst": "p1", "weight": null}]}`,
		`{"node": "p1", "class": "buys", "top": 3}`, `{"ids": ["p1", 2], "columns": ["x", "label"]}`, `{"questions": [{"head": "?", "relation": "", "tail": "p1"}]}`, `{"rows": [1], "at": "2025-01-01"}`, `[]`, `{"nodes": [1e300]}`} {
		for path := range uint8(7) {
			f.Add(path, body)
		}
	}
	paths := []string{"/v1/predict", "/v1/explain", "/v1/nodes", "/v1/links", "/v1/nearest", "/v1/targets",
		"/v1/recommend"}
	f.Fuzz(func(t *testing.T, path uint8, body string) {
		own := *s
		own.t = t
		status, text := own.do("POST", paths[int(path)%len(paths)], body)
		if status >= 500 || !json.Valid([]byte(text)) {
			t.Errorf("%s %q: status %d: %s: %s", paths[int(path)%len(paths)], body, status, text, s.log.String())
		}
	})
}

// dots holds answers about nodes, by dot products, to the vectors that are looked up.
func (s *served) dots(nodes []any, got best) {
	s.t.Helper()
	vectors := func(ids []any) (list [][]float64) {
		for _, e := range ask[struct{ Embeddings []struct{ Vector []float64 } }](s, "POST", "/v1/embeddings", clitest.MustJSON(s.t.(*testing.T), map[string]any{"nodes": ids})).Embeddings {
			list = append(list, e.Vector)
		}
		return list
	}
	own := vectors(nodes)
	for k, a := range got.Answers {
		ids := make([]any, len(a.Best))
		for i, b := range a.Best {
			ids[i] = b.ID
		}
		for i, other := range vectors(ids) {
			var dot float64
			for d, x := range other {
				dot += x * own[k][d]
			}
			if len(other) == 0 || math.Abs(dot-a.Best[i].Score) > 1e-4*(1+math.Abs(dot)) {
				s.t.Errorf("%v and %v: the product of vectors is %v, the score %v", nodes[k], ids[i], dot, a.Best[i].Score)
			}
		}
	}
}

// TestSimilar: the nodes most similar by a model of nodes are those of gstore predict, whoever asks first.
func TestSimilar(t *testing.T) {
	dir := makePeople(90).store(t, 90)
	for _, flags := range [][]string{nil, {"--mem", "400MiB"}} {
		s := serve(t, append([]string{dir}, flags...)...)
		var wg sync.WaitGroup
		for k, by := range []string{"cosine", "dot", "cosine", "dot"} {
			node := fmt.Sprint("p", 7*k)
			wg.Go(func() {
				want := rows(t, dir, node, "--nearest", by, "--top", "6")
				got := ask[best](s, "POST", "/v1/nearest", fmt.Sprintf(`{"nodes": [%q, "p1"], "by": %q, "top": 6}`,
					node, by))
				if len(got.Answers) != 2 || got.Answers[0].Node != node || len(got.Answers[0].Best) != 6 {
					t.Errorf("%s by %s: %+v", node, by, got)
					return
				}
				for i, b := range got.Answers[0].Best {
					if score, err := strconv.ParseFloat(want[i][3],
						64); err != nil || fmt.Sprint(b.ID) != want[i][2] || math.Abs(score-b.Score) > 1e-4*(1+math.Abs(score)) {
						t.Errorf("%s by %s: answer %d is %+v, expected %v", node, by, i, b, want[i])
					}
				}
			})
		}
		wg.Wait()
		s.dots([]any{"p1", "p7"}, ask[best](s, "POST", "/v1/nearest", `{"nodes": ["p1", "p7"], "by": "dot", "top": 5}`))
		for body, says := range map[string]string{`{"nodes": ["p1"], "by": "taste"}`: "by",
			`{"nodes": ["p1"], "top": 5000}`: "top", `{"nodes": ["x"]}`: "no node has"} {
			if status, text := s.do("POST", "/v1/nearest", body); status < 400 || status > 404 || !strings.Contains(text, says) {
				t.Errorf("%s: status %d: %s", body, status, text)
			}
		}
		s.end()
	}
}
