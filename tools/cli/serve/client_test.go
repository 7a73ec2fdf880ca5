package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// served is a server of the test's own process.
type served struct {
	t       testing.TB
	address string
	end     func() int // ends it and returns its exit code
	log     *bytes.Buffer
	token   string
}

// serve starts gstore serve on a free port.
func serve(t *testing.T, args ...string) *served {
	t.Helper()
	return serveUntil(t, args...)
}

// serveUntil serves until t ends, which may be a fuzz target with many tests.
func serveUntil(t testing.TB, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	s := &served{t: t, log: &bytes.Buffer{}}
	code := make(chan int, 1)
	go func() {
		code <- cli.Run(ctx, append([]string{"serve", "--json", "--listen", "127.0.0.1:0", "--reload", "50ms"},
			args...), strings.NewReader(""), w, s.log)
		_ = w.Close()
	}()
	ended := false
	s.end = func() int {
		if ended {
			return 0
		}
		ended = true
		cancel()
		return <-code
	}
	t.Cleanup(func() {
		if c := s.end(); c != 0 && c != cli.ExitInterrupted {
			t.Errorf("gstore serve %v: exit code %d: %s", args, c, s.log.String())
		}
	})
	d := json.NewDecoder(r)
	for {
		var event struct {
			Event   string `json:"event"`
			Address string `json:"address"`
		}
		if err := d.Decode(&event); err != nil {
			t.Fatalf("gstore serve %v: %v: %s", args, err, s.log.String())
		}
		if event.Event == "listening" {
			s.address = event.Address
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, io.MultiReader(d.Buffered(), r)) }()
	return s
}

// do sends a request and returns status and body.
func (s *served) do(method, path, body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.address+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = a.Body.Close() }()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// ask sends a request that must be answered, and decodes the answer.
func ask[T any](s *served, method, path, body string) (answer T) {
	s.t.Helper()
	status, text := s.do(method, path, body)
	if status != http.StatusOK {
		s.t.Fatalf("%s %s %s: status %d: %s", method, path, body, status, text)
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		s.t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return answer
}

// said are predictions.
type said struct {
	Version     uint64
	Model       string
	Predictions []struct {
		ID            any
		Class         any
		Value         float64
		Probability   float64
		Probabilities map[string]float64
	}
}

// people is a table of nodes with all kinds of columns, and what follows whom: the last of them know more than the store, which holds the first.
type people struct {
	header string
	rows   []string
	edges  [][2]int
}

func makePeople(n int) *people {
	r := rand.New(rand.NewPCG(3, 4))
	p := &people{header: "id,age,city,income,premium,label"}
	for i := range n {
		income, city := fmt.Sprintf("%.2f", 1000+3000*r.Float64()), []string{"Bern", "Basel", "Chur, GR", ""}[r.IntN(4)]
		if r.IntN(9) == 0 {
			income = ""
		}
		label := "buys"
		if r.IntN(3) == 0 {
			label = "looks"
		}
		p.rows = append(p.rows, fmt.Sprintf("p%d,%d,%q,%s,%d,%s", i, 18+r.IntN(60), city, income, r.IntN(2), label))
		for range 4 {
			p.edges = append(p.edges, [2]int{i, r.IntN(n)})
		}
	}
	return p
}

// write writes the people from first on and the edges of which one end is one of them, the other below end.
func (p *people) write(t testing.TB, first, end int) (nodes, edges string) {
	t.Helper()
	dir := t.TempDir()
	nodes, edges = filepath.Join(dir, "people.csv"), filepath.Join(dir, "follows.csv")
	var e strings.Builder
	e.WriteString("src,dst\n")
	for _, x := range p.edges {
		if max(x[0], x[1]) >= first && max(x[0], x[1]) < end {
			fmt.Fprintf(&e, "p%d,p%d\n", x[0], x[1])
		}
	}
	for path, text := range map[string]string{nodes: p.header + "\n" + strings.Join(p.rows[first:end], "\n") + "\n",
		edges: e.String()} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return nodes, edges
}

// store ingests the first people and trains a model.
func (p *people) store(t *testing.T, n int, flags ...string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "people.gstore")
	nodes, edges := p.write(t, 0, n)
	clitest.MustRun(t, append([]string{"ingest", edges, dir, "--nodes", nodes, "--use", "city", "--quiet"},
		flags...)...)
	clitest.MustRun(t, "train", dir, "--epochs", "4", "--quiet")
	return dir
}
