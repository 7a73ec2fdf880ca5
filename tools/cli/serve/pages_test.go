package serve_test

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/tools/cli/clitest"
)

// page gets a page that does not load itself again any more.
func (s *served) page(path string) string {
	s.t.Helper()
	for range 200 {
		status, text := s.do("GET", path, "")
		if status != http.StatusOK {
			s.t.Fatalf("GET %s: status %d: %s", path, status, text)
		}
		if !strings.Contains(text, `http-equiv="refresh"`) && !strings.Contains(text, "They are counted") {
			return text
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.t.Fatalf("GET %s loads itself again and again", path)
	return ""
}

// withoutStyle is a page that can be read in a test's log.
func withoutStyle(text string) string {
	head, rest, _ := strings.Cut(text, "<style>")
	_, rest, _ = strings.Cut(rest, "</style>")
	return head + rest
}

// first is the first group of a pattern in a page, as text.
func first(t *testing.T, page, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("the page has no %s: %s", pattern, withoutStyle(page))
	}
	return html.UnescapeString(found[1])
}

// TestPages: pages show what the store, gstore eval and the runs are, every node that they name has a page of its own, and none has
// a script.
func TestPages(t *testing.T) {
	p := makePeople(200)
	dir := p.store(t, 200, "--partitions", "4", "--split-random", "50/25/25")
	clitest.MustRun(t, "train", dir, "--epochs", "2", "--lr", ".001", "--quiet")
	s := serve(t, dir)
	var eval struct {
		Valid      float64 `json:"valid_accuracy"`
		Test       float64 `json:"test_accuracy"`
		ValidNodes float64 `json:"valid_nodes"`
		TestNodes  float64 `json:"test_nodes"`
	}
	code, out, errs := clitest.Run(t, "eval", dir, "--json")
	if code != 0 {
		t.Fatal(errs)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &eval); err != nil {
		t.Fatal(err)
	}
	mistakes := s.page("/mistakes")
	right, err := strconv.ParseFloat(first(t, mistakes, `<dd>([0-9.]+) %`), 64)
	asked := eval.ValidNodes + eval.TestNodes
	if want := (eval.Valid*eval.ValidNodes + eval.Test*eval.TestNodes) / asked; err != nil || math.Abs(right-100*want) > .06 || !strings.Contains(mistakes, fmt.Sprintf("%.0f nodes with labels that the model was not trained with are right", asked)) {
		t.Errorf("%v: %v %% are right, gstore eval says %+v: %s", err, right, eval, withoutStyle(mistakes))
	}
	wrong := 0
	for _, m := range regexp.MustCompile(`<td><a href="([^"]+)">`).FindAllStringSubmatch(mistakes, -1) {
		if wrong++; wrong%7 == 1 {
			s.page(html.UnescapeString(m[1]))
		}
	}
	if wrong != int(math.Round(asked*(100-right)/100)) {
		t.Errorf("%d mistakes are listed of %v nodes, %v %% are right", wrong, asked, right)
	}
	confused := 0
	for _, m := range regexp.MustCompile(`<a href="(/mistakes\?class=[^"]+)">([0-9]+)</a>`).FindAllStringSubmatch(mistakes, -1) {
		list := s.page(html.UnescapeString(m[1]))
		n, of := strings.Count(list, `<td><a href="/?id=`), m[2]
		if more := regexp.MustCompile(`and (\d+) more`).FindStringSubmatch(list); more != nil {
			k, err := strconv.Atoi(more[1])
			if err != nil {
				t.Fatal(err)
			}
			n += k
		}
		if confused += n; strconv.Itoa(n) != of {
			t.Errorf("%s lists %d nodes, the matrix says %s", m[1], n, of)
		}
	}
	if confused != int(asked) {
		t.Errorf("the matrix has %d nodes", confused)
	}
	if n := strings.Count(s.page("/map"), `<a href="/?id=p`); n != int(asked) {
		t.Errorf("the map has %d nodes", n)
	}
	of := s.page("/")
	edges := 0
	for _, m := range regexp.MustCompile(`<title>from \d to \d: (\d+) edges</title>`).FindAllStringSubmatch(of, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		edges += n
	}
	if edges != len(p.edges) || !strings.Contains(of, "The mean is "+fmt.Sprintf("%.1f", 2*float64(len(p.edges))/200)) {
		t.Errorf("the map of edges has %d of %d: %s", edges, len(p.edges), withoutStyle(of))
	}
	if text := s.page("/features"); !strings.Contains(text, "income") || strings.Count(text, "<figure>") < 4 {
		t.Errorf("features: %s", withoutStyle(text))
	}
	if text := s.page("/runs"); strings.Count(text, `type="checkbox"`) != 2 || !strings.Contains(text, "<th>--lr</th>") || strings.Count(text, " checked") != 2 {
		t.Errorf("runs: %s", withoutStyle(text))
	}
	if text := s.page("/runs?run=2"); strings.Count(text, " checked") != 1 || strings.Contains(text, "<th>--lr</th>") {
		t.Errorf("of one run: %s", withoutStyle(text))
	}
	if text := s.page("/runs/1"); !strings.Contains(text, "<h2>run 1</h2>") || !strings.Contains(text, `class="line c0"`) {
		t.Errorf("a run: %s", withoutStyle(text))
	}
	live := filepath.Join(dir, "runs", "last.jsonl") // as of a run that is under way
	for _, c := range []struct{ lines, want string }{{"", "its first epoch has not ended"},
		{`{"event":"result","epoch":1,"loss":1,"valid_accuracy":0.5,"end_s":1}` + "\n" + `{"event":"result","epoch":2,"loss":0.5,"val`, "epochs until now"}} {
		if err := os.WriteFile(live, []byte(c.lines), 0o666); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{"/runs": "trained now", "/runs/last": c.want} {
			if status, text := s.do("GET", path, ""); status != http.StatusOK || !strings.Contains(text, want) || !strings.Contains(text, `http-equiv="refresh"`) {
				t.Errorf("%s while a run trains: status %d, no %q: %s", path, status, want, withoutStyle(text))
			}
		}
	}
	for path, want := range map[string]int{"/runs/7": 404, "/runs/..%2f..%2fmeta": 404, "/runs/%3Cscript%3E": 404, "/mistakes?model=no": 404, "/?id=nobody": 404, "/nothing": 404} {
		if status, text := s.do("GET", path, ""); status != want || strings.Contains(text, "<script") {
			t.Errorf("%s: status %d, %s", path, status, withoutStyle(text))
		}
	}
	if status, text := s.do("GET", "/metrics", ""); status != http.StatusOK || !strings.Contains(text, `gstore_requests_total{method="GET",path="/mistakes",status="200"}`) {
		t.Error("meters lack the pages")
	}
}

// TestPagesWithoutClasses: pages of what a store or model has not say so, and nothing leads to them.
func TestPagesWithoutClasses(t *testing.T) {
	links := filepath.Join(t.TempDir(), "kg.gstore")
	clitest.MustRun(t, "demo", "--task", "link", "--dir", links, "--epochs", "1", "--quiet")
	s := serve(t, links)
	if text := s.page("/"); strings.Contains(text, `href="/mistakes"`) || strings.Contains(text, `href="/features"`) || !strings.Contains(text, `href="/runs"`) {
		t.Errorf("the store's page: %s", withoutStyle(text))
	}
	for _, path := range []string{"/mistakes", "/map?model=no"} {
		if status, text := s.do("GET", path, ""); status != http.StatusBadRequest && status != http.StatusNotFound || !strings.Contains(text, `role="alert"`) {
			t.Errorf("%s: status %d, %s", path, status, withoutStyle(text))
		}
	}
	if text := s.page("/runs"); !strings.Contains(text, "MRR") {
		t.Errorf("runs: %s", withoutStyle(text))
	}
}

// TestTemporalStore: a store whose only model predicts edges at moments is served for look-ups alone.
func TestTemporalStore(t *testing.T) {
	var b strings.Builder
	for i := range 600 {
		fmt.Fprintf(&b, "u%d\ti%d\t%d\n", i%20, i*7%30, 1000+i)
	}
	work := clitest.Put(t, t.TempDir(), map[string][]byte{"edges.tsv": []byte(b.String())})
	dir := filepath.Join(work, "s.gstore")
	clitest.MustRun(t, "ingest", filepath.Join(work, "edges.tsv"), dir, "--columns", "src,dst,timestamp", "--quiet")
	clitest.MustRun(t, "train", dir, "--task", "temporal", "--dim", "8", "--negatives", "5", "--epochs", "1", "--quiet")
	s := serve(t, dir)
	if status, text := s.do("GET", "/v1/nodes?id=u3", ""); status != http.StatusOK || !strings.Contains(text, `"degree":30`) {
		t.Errorf("status %d: %s", status, text)
	}
	if status, _ := s.do("POST", "/v1/predict", `{"nodes": ["u3"]}`); status != http.StatusNotFound {
		t.Errorf("a prediction: status %d", status)
	}
	if !strings.Contains(s.log.String(), "predicts edges at moments") {
		t.Errorf("the log does not say why there is no model: %s", s.log.String())
	}
	if text := s.page("/runs"); !strings.Contains(text, "edges at moments") || !strings.Contains(text, "MRR") {
		t.Errorf("runs: %s", withoutStyle(text))
	}
}

//go:embed testdata/look.js
var look string

// TestLook: in a real browser, wide and narrow, light and dark, no page is wider than the window, letters have a contrast of 4.5 to what lies
// behind them (WCAG 2.2, 1.4.3), names of a chart's axis do not lie over each other, and pictures, fields and links have names.
func TestLook(t *testing.T) {
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here to look at pages with")
	}
	p := makePeople(200)
	dir := p.store(t, 200, "--partitions", "4", "--split-random", "50/25/25")
	clitest.MustRun(t, "train", dir, "--epochs", "3", "--lr", ".001", "--plan", "hanoi", "--buffer", "2", "--quiet")
	s := serve(t, dir)
	work := t.TempDir()
	for name, path := range map[string]string{"store": "/", "node": "/?id=p3", "none": "/?id=nobody", "features": "/features", "runs": "/runs", "run": "/runs/2", "mistakes": "/mistakes", "map": "/map"} {
		var text string
		if name == "none" {
			_, text = s.do("GET", path, "")
		} else {
			text = s.page(path)
		}
		text = strings.Replace(text, "</body>", "<script>"+look+"</script></body>", 1)
		file := filepath.Join(work, name+".html")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "<details>", "<details open>")), 0o666); err != nil {
			t.Fatal(err)
		}
		for i, size := range []string{"1200,900", "500,900"} {
			for k, theme := range []string{"light", "dark"} {
				if i != k && os.Getenv("GSTORE_FULL_TESTS") == "" {
					continue
				}
				args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=" + size, "--dump-dom"}
				if theme == "dark" {
					args = append(args, "--blink-settings=preferredColorScheme=0")
				}
				out, err := exec.CommandContext(t.Context(), browser, append(args, "file://"+file)...).Output()
				if err != nil {
					t.Fatalf("%s: %v", browser, err)
				}
				if found := first(t, string(out), `(?s)<pre id="looked">(.*?)</pre>`); found != "looked at "+theme {
					t.Errorf("%s, %s, %s: %s", name, size, theme, found)
				}
			}
		}
	}
}
