package serve_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gstore/gstore/tools/cli/clitest"
)

// predicted is what gstore predict says of nodes: the probabilities of classes, by node.
func predicted(t *testing.T, dir string, args ...string) map[string]map[string]float64 {
	t.Helper()
	code, out, errs := clitest.Run(t, append([]string{"predict", dir, "--format", "csv", "--quiet"}, args...)...)
	if code != 0 {
		t.Fatalf("gstore predict: %s", errs)
	}
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]float64{}
	for _, l := range lines[1:] {
		of := map[string]float64{}
		for k, name := range lines[0] {
			if class, ok := strings.CutPrefix(name, "p_"); ok {
				if of[class], err = strconv.ParseFloat(l[k], 64); err != nil {
					t.Fatal(err)
				}
			}
		}
		all[l[0]] = of
	}
	return all
}

// same compares predictions with those of gstore predict.
func (s *served) same(what string, got said, want map[string]map[string]float64) {
	s.t.Helper()
	for _, p := range got.Predictions {
		of := want[fmt.Sprint(p.ID)]
		if len(of) == 0 || len(p.Probabilities) != len(of) {
			s.t.Errorf("%s: node %v: %v, expected %v", what, p.ID, p.Probabilities, of)
		}
		for class, x := range of {
			if math.Abs(p.Probabilities[class]-x) > 2e-6 || x > p.Probability+2e-6 {
				s.t.Errorf("%s: node %v, class %s: %v, expected %v", what, p.ID, class, p.Probabilities[class], x)
			}
		}
	}
}

// TestAnswers: nodes, neighbours and predictions are those of the store and of gstore predict, whatever memory there is.
func TestAnswers(t *testing.T) {
	p := makePeople(120)
	dir := p.store(t, 120)
	want := predicted(t, dir)
	for _, flags := range [][]string{nil, {"--mem", "300MiB"}, {"--threads", "3"}} {
		s := serve(t, append([]string{dir}, flags...)...)
		var ids []string
		for v := range want {
			ids = append(ids, v)
		}
		s.same("all at once", ask[said](s, "POST", "/v1/predict", clitest.MustJSON(t, map[string]any{"nodes": ids})),
			want)
		s.same("one", ask[said](s, "POST", "/v1/predict", `{"nodes": ["p7"]}`), want)
		twice := ask[said](s, "POST", "/v1/predict", `{"nodes": ["p7", "p8", "p7"], "top": 1}`)
		if len(twice.Predictions) != 3 || twice.Predictions[2].Probability != twice.Predictions[0].Probability || len(twice.Predictions[0].Probabilities) != 1 {
			t.Errorf("a node twice: %+v", twice)
		}
		nodes := ask[struct {
			Version uint64
			Nodes   []struct {
				ID      string
				Degree  int
				Columns map[string]any
			}
		}](s, "POST", "/v1/nodes", `{"ids": ["p3", "p5"]}`)
		row, err := csv.NewReader(strings.NewReader(p.rows[3])).Read()
		if err != nil {
			t.Fatal(err)
		}
		x, _ := nodes.Nodes[0].Columns["x"].(map[string]any)
		if age, _ := strconv.ParseFloat(row[1], 64); nodes.Version != 1 || nodes.Nodes[0].ID != "p3" || math.Abs(x["age"].(float64)-age) > 1e-3 || nodes.Nodes[0].Columns["label"] != row[5] {
			t.Errorf("node p3: %+v, expected %v", nodes.Nodes[0], row)
		}
		var from, to int
		for _, e := range p.edges {
			if e[0] == 3 {
				from++
			}
			if e[1] == 3 {
				to++
			}
		}
		for direction, n := range map[string]int{"in": to, "out": from, "both": from + to} {
			a := ask[struct {
				Edges     int
				Neighbors []struct {
					ID, Direction string
				}
			}](s, "GET", "/v1/neighbors?id=p3&limit=1000&direction="+direction, "")
			if len(a.Neighbors) != a.Edges || a.Edges > n || a.Edges < n-2 { // duplicates and self loops are dropped
				t.Errorf("neighbours of p3, %s: %+v, expected %d", direction, a, n)
			}
		}
		why := ask[struct {
			Says, Without_features, Without_edges float64
			Features                              []struct{ Share float64 }
		}](s, "POST", "/v1/explain", `{"node": "p3", "class": "buys", "top": 1000}`)
		sum := why.Without_features
		for _, f := range why.Features {
			sum += f.Share
		}
		if math.Abs(why.Says-want["p3"]["buys"]) > 1e-4 || math.Abs(sum-why.Says) > .02 {
			t.Errorf("why: %+v, features lead to %v, expected %v", why, sum, want["p3"]["buys"])
		}
		s.end()
	}
}

// TestNewNodes: a node that is sent is told what it is told once it is appended, and so are those that it is connected with.
func TestNewNodes(t *testing.T) {
	for _, flags := range [][]string{nil, {"--undirected"}} {
		p := makePeople(120)
		dir := p.store(t, 100, flags...)
		var request struct {
			New []map[string]any `json:"new"`
			Old []string         `json:"nodes"`
			Ed  []map[string]any `json:"edges"`
		}
		names := strings.Split(p.header, ",")
		for i := 100; i < 120; i++ {
			row, err := csv.NewReader(strings.NewReader(p.rows[i])).Read()
			if err != nil {
				t.Fatal(err)
			}
			features := map[string]any{}
			for k, cell := range row[1:5] {
				switch x, err := strconv.ParseFloat(cell, 64); {
				case cell == "" && i%2 == 0:
					features[names[k+1]] = nil
				case cell == "": // left out
				case err == nil:
					features[names[k+1]] = x
				default:
					features[names[k+1]] = cell
				}
			}
			request.New = append(request.New, map[string]any{"id": row[0], "features": features})
		}
		for _, e := range p.edges {
			if max(e[0], e[1]) < 100 {
				continue
			}
			request.Ed = append(request.Ed, map[string]any{"src": fmt.Sprint("p", e[0]), "dst": fmt.Sprint("p", e[1])})
			if end := fmt.Sprint("p", min(e[0], e[1])); min(e[0],
				e[1]) < 100 && len(request.Old) < 40 && !slices.Contains(request.Old, end) {
				request.Old = append(request.Old, end)
			}
		}
		s := serve(t, dir)
		got := ask[said](s, "POST", "/v1/predict", clitest.MustJSON(t, request))
		before := ask[said](s, "POST", "/v1/predict", clitest.MustJSON(t, map[string]any{"nodes": request.Old}))
		nodes, edges := p.write(t, 100, 120)
		clitest.MustRun(t, "append", dir, edges, "--nodes", nodes, "--quiet")
		want := predicted(t, dir)
		s.same("new ones", got, want)
		if len(got.Predictions) != 20+len(request.Old) {
			t.Errorf("%d predictions of %d nodes", len(got.Predictions), 20+len(request.Old))
		}
		moved := 0
		for i, b := range before.Predictions {
			if b.Probability != got.Predictions[i].Probability {
				moved++
			}
		}
		if moved == 0 {
			t.Error("new edges moved no old node: the check sees nothing")
		}
		for i := 0; ; i++ { // the version that was appended is taken up
			if ask[said](s, "POST", "/v1/predict", `{"nodes": ["p3"]}`).Version == 2 {
				s.same("after the append", ask[said](s, "POST", "/v1/predict", `{"nodes": ["p110", "p3"]}`), want)
				break
			}
			if i > 200 {
				t.Fatalf("version 2 is not served: %s", s.log.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// TestMistakes: what is wrong with a request is said, by status and in words.
func TestMistakes(t *testing.T) {
	dir := makePeople(40).store(t, 40)
	s := serve(t, dir, "--most-body", "4KiB", "--timeout", "20s")
	for _, k := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"GET", "/v1/nodes?id=nobody", "", 404, "no node has the id"},
		{"GET", "/v1/nodes", "", 400, "no node is named"},
		{"GET", "/v1/nodes?id=p1&column=y", "", 404, "y"},
		{"GET", "/v1/nodes?ids=p1", "", 400, "no parameter"},
		{"GET", "/v1/neighbors?id=p1&limit=-1", "", 400, "limit"},
		{"GET", "/v1/neighbors?id=p1&direction=up", "", 400, "direction"},
		{"GET", "/v1/neighbors?id=p1&relation=x", "", 400, "relation"},
		{"GET", "/v1/neighbors?id=p1&id=p2", "", 400, "expected one"},
		{"POST", "/v1/predict", "", 400, "empty"},
		{"POST", "/v1/predict", "{", 400, "no such object"},
		{"POST", "/v1/predict", `{"node": ["p1"]}`, 400, "unknown field"},
		{"POST", "/v1/predict", `{"nodes": ["p1"]} {}`, 400, "more follows"},
		{"POST", "/v1/predict", `{"nodes": [-1]}`, 400, "id -1"},
		{"POST", "/v1/predict", `{"nodes": []}`, 400, "no node is named"},
		{"POST", "/v1/predict", `{"nodes": ["p1"], "model": "x"}`, 404, "no model"},
		{"POST", "/v1/predict", `{"nodes": ["p1"], "top": -1}`, 400, "top"},
		{"POST", "/v1/predict", `{"new": [{"id": "p1"}]}`, 400, "already"},
		{"POST", "/v1/predict", `{"new": [{"id": "n"}, {"id": "n"}]}`, 400, "two new nodes"},
		{"POST", "/v1/predict", `{"new": [{"id": "n", "type": "x"}]}`, 400, "one type"},
		{"POST", "/v1/predict", `{"new": [{"id": "n", "features": {"age": "old"}}]}`, 400, "age"},
		{"POST", "/v1/predict", `{"new": [{"id": "n", "features": {"x": [1]}}]}`, 400, "numbers"},
		{"POST", "/v1/predict", `{"new": [{"id": "n", "features": {"shoes": 44}}]}`, 400, "shoes"},
		{"POST", "/v1/predict", `{"new": [{"id": "n", "features": {"age": {"of": 3}}}]}`, 400, "age"},
		{"POST", "/v1/predict", `{"new": [{"id": "n"}], "edges": [{"src": "n", "dst": "nobody"}]}`, 404, "nobody"},
		{"POST", "/v1/predict", `{"new": [{"id": "n"}], "edges": [{"src": "n", "dst": "p1", "weight": 2}]}`, 400,
			"no weights"},
		{"POST", "/v1/predict", `{"new": [{"id": "n"}], "edges": [{"src": "n", "dst": "p1", "relation": "hates"}]}`,
			400, "hates"},
		{"POST", "/v1/predict", `{"nodes": ["` + strings.Repeat("x", 5000) + `"]}`, 413, "--most-body"},
		{"POST", "/v1/explain", `{"node": "p1", "class": "x"}`, 400, "class"},
		{"POST", "/v1/explain", `{}`, 400, "no node"},
		{"POST", "/v1/links", `{}`, 400, "no model that is served"},
		{"POST", "/v1/targets", `{}`, 400, "no model that is served"},
		{"GET", "/v2/x", "", 404, "openapi.json"},
		{"DELETE", "/v1/nodes", "", 405, "no DELETE"},
		{"GET", "/?id=nobody", "", 404, "no node has the id"},
	} {
		status, text := s.do(k.method, k.path, k.body)
		if status != k.status || !strings.Contains(text, k.says) {
			t.Errorf("%s %s %.80s: status %d, %s; expected %d, %q", k.method, k.path, k.body, status, text, k.status,
				k.says)
		}
	}
	if text := s.log.String(); strings.Contains(text, "panic") || strings.Contains(text, `"ERROR"`) {
		t.Errorf("the log has %s", text)
	}
}

// TestToken: without its token a server answers nothing but that it runs, and one that others can reach needs one.
func TestToken(t *testing.T) {
	dir := makePeople(30).store(t, 30)
	if code, _, errs := clitest.Run(t, "serve", dir, "--listen", "0.0.0.0:0"); code != 2 || !strings.Contains(errs, "--token-file") {
		t.Errorf("open to all: exit code %d, %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := clitest.Run(t, "serve", dir, "--token-file", file); code != 2 || !strings.Contains(errs, "16 characters") {
		t.Errorf("a short token: exit code %d, %s", code, errs)
	}
	if err := os.WriteFile(file, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, dir, "--token-file", file)
	for _, token := range []string{"", "0123456789abcdeF", "0123456789abcdef0"} {
		s.token = token
		for _, path := range []string{"/v1/store", "/", "/metrics", "/openapi.json"} {
			if status, text := s.do("GET", path, ""); status != http.StatusUnauthorized || strings.Contains(text, "people") {
				t.Errorf("token %q, %s: status %d, %s", token, path, status, text)
			}
		}
		if status, _ := s.do("GET", "/healthz", ""); status != http.StatusOK {
			t.Errorf("/healthz: status %d", status)
		}
	}
	if s.token = "0123456789abcdef"; ask[map[string]any](s, "GET", "/v1/store", "")["version"] != 1. {
		t.Error("no answer with the token")
	}
}

// TestPage: the page shows the store and a node, and what users called things is text.
func TestPage(t *testing.T) {
	work := t.TempDir()
	edges := filepath.Join(work, "e.csv")
	if err := os.WriteFile(edges, []byte("src,dst\n<script>alert(1)</script>,b\nb,c\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(work, "s.gstore")
	clitest.MustRun(t, "ingest", edges, dir, "--quiet")
	s := serve(t, dir)
	for _, path := range []string{"/", "/?id=b", "/?id=%3Cscript%3Ealert(1)%3C/script%3E"} {
		status, text := s.do("GET", path, "")
		if status != http.StatusOK || strings.Contains(text, "<script") || !strings.Contains(text, "s.gstore") {
			t.Errorf("%s: status %d, %s", path, status, text)
		}
		if path != "/" && !strings.Contains(text, "&lt;script&gt;") {
			t.Errorf("%s: no such neighbour or node in %s", path, text)
		}
	}
}

// TestNewVersions: versions and models are taken up while requests are answered, none of which fails.
func TestNewVersions(t *testing.T) {
	p := makePeople(160)
	dir := p.store(t, 60)
	s := serve(t, dir)
	var wg sync.WaitGroup
	var asked atomic.Int64
	stop := make(chan struct{})
	versions := make([]map[uint64]bool, 4)
	for k := range versions {
		versions[k] = map[uint64]bool{}
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				status, text := s.do("POST", "/v1/predict", fmt.Sprintf(`{"nodes": ["p%d", "p%d"]}`, i%60, (i+k)%60))
				var a said
				if err := json.Unmarshal([]byte(text), &a); status != http.StatusOK || err != nil || len(a.Predictions) != 2 {
					t.Errorf("status %d: %s", status, text)
					return
				}
				versions[k][a.Version] = true
				asked.Add(1)
			}
		})
	}
	for first := 60; first < 160; first += 20 {
		nodes, edges := p.write(t, first, first+20)
		clitest.MustRun(t, "append", dir, edges, "--nodes", nodes, "--keep-versions", "1", "--quiet")
		if first == 100 {
			clitest.MustRun(t, "train", dir, "--epochs", "2", "--quiet", "--seed", "9")
		}
		time.Sleep(150 * time.Millisecond)
	}
	for i := 0; ask[said](s, "POST", "/v1/predict", `{"nodes": ["p1"]}`).Version != 6; i++ {
		if i > 200 {
			t.Fatalf("version 6 is not served: %s", s.log.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	all := map[uint64]bool{}
	for _, of := range versions {
		for v := range of {
			all[v] = true
		}
	}
	if len(all) < 3 {
		t.Errorf("%d requests saw versions %v: expected some of those between", asked.Load(), all)
	}
	s.same("at the end", ask[said](s, "POST", "/v1/predict", `{"nodes": ["p1", "p150"]}`), predicted(t, dir))
	if s.end(); strings.Contains(s.log.String(), `"ERROR"`) {
		t.Errorf("the log has %s", s.log.String())
	}
}

// TestEnds: a process ends by SIGTERM with what it works on answered, and by SIGKILL nothing is lost: the store is only read.
func TestEnds(t *testing.T) {
	dir := makePeople(60).store(t, 60)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL} {
		cmd := clitest.Command("serve", dir, "--listen", "127.0.0.1:0", "--json")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		if cmd.Stderr = &errs; cmd.Start() != nil {
			t.Fatal("it does not start")
		}
		var event struct{ Event, Address string }
		for d := json.NewDecoder(out); event.Event != "listening"; {
			if err := d.Decode(&event); err != nil {
				t.Fatalf("%v: %s", err, errs.String())
			}
		}
		s := &served{t: t, address: event.Address}
		if status, text := s.do("POST", "/v1/predict", `{"nodes": ["p1"]}`); status != http.StatusOK {
			t.Fatalf("status %d: %s", status, text)
		}
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); sig != syscall.SIGKILL && code != 0 {
			t.Errorf("%v: exit code %d (%v): %s", sig, code, err, errs.String())
		}
		clitest.MustRun(t, "verify", dir, "--quiet")
	}
}

// TestPageOfDocs: the requests on docs/serve.md are answered, from the store that the tutorial makes.
func TestPageOfDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/serve.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "packages.gstore")
	packages := "../../../testdata/packages/"
	clitest.MustRun(t, "ingest", packages+"depends.csv", dir, "--nodes", packages+"packages.csv", "--undirected",
		"--split-random", "60/20/20", "--quiet")
	clitest.MustRun(t, "train", dir, "--seed", "1", "--epochs", "4", "--quiet")
	s := serve(t, dir)
	posts := regexp.MustCompile(`(?s)curl -s localhost:7474(/\S+) -d '([^']*)'`).FindAllStringSubmatch(string(page), -1)
	gets := regexp.MustCompile("`GET (/[^` ]*)`").FindAllStringSubmatch(string(page), -1)
	if len(posts) != 2 || len(gets) < 5 {
		t.Fatalf("the page has %d requests by POST and %d by GET", len(posts), len(gets))
	}
	for _, k := range posts {
		if got := ask[said](s, "POST", k[1], k[2]); len(got.Predictions) == 0 || got.Predictions[0].Class == nil {
			t.Errorf("%s: %+v", k[2], got)
		}
	}
	for _, k := range gets {
		if status, text := s.do("GET", k[1], ""); status != http.StatusOK {
			t.Errorf("GET %s: status %d: %s", k[1], status, text)
		}
	}
}

// TestEdgeColumns: columns of edges are those of the file, of each edge its own.
func TestEdgeColumns(t *testing.T) {
	work := t.TempDir()
	edges, dir := filepath.Join(work, "e.csv"), filepath.Join(work, "s.gstore")
	var text strings.Builder
	text.WriteString("src,dst,weight,amount\n")
	for i := range 40 {
		fmt.Fprintf(&text, "a%d,b%d,%g,%d\n", i%8, i%5, float64(i)/4, i*i)
	}
	if err := os.WriteFile(edges, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	clitest.MustRun(t, "ingest", edges, dir, "--columns", "src,dst,weight,amount", "--partitions", "3", "--quiet")
	s := serve(t, dir)
	seen := map[float64]bool{}
	for k := range 8 {
		for _, n := range ask[struct {
			Neighbors []struct {
				ID      string
				Weight  float64
				Columns struct{ Amount float64 }
			}
		}](s, "GET", fmt.Sprintf("/v1/neighbors?id=a%d&column=amount&direction=out", k), "").Neighbors {
			i := 4 * n.Weight
			if seen[i] = true; n.Columns.Amount != i*i || int(i)%8 != k || n.ID != fmt.Sprint("b", int(i)%5) {
				t.Errorf("edge %v of a%d: %+v", i, k, n)
			}
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d of 40 edges were found", len(seen))
	}
	for _, column := range []string{"weight", "nothing"} {
		if status, text := s.do("GET", "/v1/neighbors?id=a1&column="+column, ""); status < 400 || status > 404 {
			t.Errorf("column %s: status %d: %s", column, status, text)
		}
	}
}

// TestBounds: a server with as many requests as it takes tells others to try again, a request that never comes ends, and who reaches this machine's
// own address by another name is not answered.
func TestBounds(t *testing.T) {
	dir := makePeople(30).store(t, 30)
	s := serve(t, dir, "--most", "1", "--timeout", "600ms")
	host := strings.TrimPrefix(s.address, "http://")
	slowly := func() net.Conn {
		slow, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(slow, "POST /v1/predict HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\n{", host); err != nil {
			t.Fatal(err)
		}
		return slow
	}
	slow, busy := slowly(), false
	defer func() { _ = slow.Close() }()
	for i := range 40 {
		if i%8 == 7 { // it came while one of ours was worked on, and was told to try again
			_ = slow.Close()
			slow = slowly()
		}
		time.Sleep(5 * time.Millisecond)
		status, text := s.do("GET", "/v1/store", "")
		if busy = status == http.StatusServiceUnavailable && strings.Contains(text, "try again"); busy {
			break
		}
	}
	if !busy {
		t.Error("a second request is answered beside one that is all that may be")
	}
	if status, _ := s.do("GET", "/healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz of a busy server: status %d", status)
	}
	_ = slow.Close()
	for i := 0; ; i++ {
		if status, _ := s.do("GET", "/v1/store", ""); status == http.StatusOK {
			break
		} else if i > 200 {
			t.Fatalf("status %d after the slow one has gone", status)
		}
		time.Sleep(10 * time.Millisecond)
	}
	for name, want := range map[string]int{"evil.example": http.StatusForbidden,
		"evil.example:7474": http.StatusForbidden, "localhost:1": http.StatusOK, "127.0.0.1": http.StatusOK,
		"[::1]:7": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.address+"/v1/store", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = name
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = a.Body.Close(); a.StatusCode != want {
			t.Errorf("as %s: status %d, expected %d", name, a.StatusCode, want)
		}
	}
}

// TestCarried: large requests that come slowly, all at once, are all answered: what they bring leaves room for their answers.
func TestCarried(t *testing.T) {
	s := serve(t, makePeople(30).store(t, 30), "--timeout", "4s")
	host := strings.TrimPrefix(s.address, "http://")
	body := `{"ids": ["p1", "p2"]}`
	body += strings.Repeat(" ", 349_525-len(body)) // sixteen are all that may be carried
	began := make([]net.Conn, 16)
	for i := range began {
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := fmt.Fprintf(c, "POST /v1/nodes HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s", host, len(body), body[:100]); err != nil {
			t.Fatal(err)
		}
		began[i] = c
	}
	time.Sleep(300 * time.Millisecond) // all of them are taken
	var wg sync.WaitGroup
	for _, c := range began {
		wg.Go(func() {
			if _, err := io.WriteString(c, body[100:]); err != nil {
				t.Error(err)
				return
			}
			a, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _ = a.Body.Close(); a.StatusCode != http.StatusOK {
				t.Errorf("status %d", a.StatusCode)
			}
		})
	}
	wg.Wait()
}
