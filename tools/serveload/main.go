// Command serveload measures gstore serve as clients see it: it starts a server on a store, asks it from several connections for a while, and
// prints how many requests a second were answered, how long they took, and the server's peak of memory.
//
//	go run ./tools/serveload -gstore gstore -store papers.gstore -mem 2GiB
//
// Rows: look-ups of a few nodes again and again, of any nodes, neighbours, predictions of one node and of new ones with edges, explanations, and
// malformed requests. Ids must be the integers 0 to nodes − 1.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	var (
		gstore  = flag.String("gstore", "gstore", "the program")
		dir     = flag.String("store", "", "the store")
		mem     = flag.String("mem", "", "its --mem")
		clients = flag.Int("clients", 4, "connections")
		seconds = flag.Float64("seconds", 5, "how long each row is measured")
		only    = flag.String("only", "", "the one row to measure")
	)
	flag.Parse()
	if err := run(*gstore, *dir, *mem, *clients, time.Duration(*seconds*float64(time.Second)), *only); err != nil {
		log.Fatal(err)
	}
}

// store is what the server says of itself.
type store struct {
	Nodes     uint64
	NodeTypes []struct{ Name string } `json:"node_types"`
	Relations []struct{ Name string }
	Columns   []struct {
		Name, Role string
		Dim        int
		NodeType   string `json:"node_type"`
	}
	Models []struct{ Answers []string }
}

// row is a kind of requests.
type row struct {
	name   string
	ask    func(r *rand.Rand) (method, path, body string)
	status func(int) bool
}

func run(gstore, dir, mem string, clients int, each time.Duration, only string) error {
	args := []string{"serve", dir, "--listen", "127.0.0.1:0", "--json", "--log", "errors"}
	if mem != "" {
		args = append(args, "--mem", mem)
	}
	cmd := exec.Command(gstore, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { _ = cmd.Process.Kill() }()
	var event struct {
		Address string
		Memory  bool `json:"edges_in_memory"`
	}
	lines := bufio.NewScanner(out)
	for event.Address == "" {
		if !lines.Scan() {
			return fmt.Errorf("%s serve %s does not listen", gstore, dir)
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return err
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	fmt.Printf("listening after %.2f s, edges in memory: %v\n", time.Since(began).Seconds(), event.Memory)
	var st store
	_, b, err := send(event.Address, "GET", "/v1/store", "")
	if err == nil {
		err = json.Unmarshal(b, &st)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%-34s %10s %9s %9s %9s %8s\n", "requests", "a second", "p50 ms", "p99 ms", "most ms", "failed")
	for _, w := range rows(&st) {
		if only != "" && w.name != only {
			continue
		}
		if err := measure(event.Address, w, clients, each); err != nil {
			return err
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := cmd.Wait(); err != nil {
		return err
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	fmt.Printf("server: peak %d MiB, %.1f CPU s\n", usage.Maxrss>>10,
		(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds())
	return nil
}

// rows are the kinds of requests that a store has answers to.
func rows(st *store) []row {
	some := func(r *rand.Rand) uint64 { return r.Uint64N(st.Nodes) }
	ok := func(status int) bool { return status == http.StatusOK }
	list := []row{
		{"look-up of 1,000 nodes", func(r *rand.Rand) (string, string, string) {
			return "GET", fmt.Sprintf("/v1/nodes?id=%d", r.Uint64N(min(st.Nodes, 1000))), ""
		}, ok},
		{"look-up of any node", func(r *rand.Rand) (string, string, string) {
			return "GET",
				fmt.Sprintf("/v1/nodes?id=%d", some(r)), ""
		}, ok},
		{"look-up of 100 nodes", func(r *rand.Rand) (string, string, string) {
			ids := make([]uint64, 100)
			for i := range ids {
				ids[i] = some(r)
			}
			b, _ := json.Marshal(map[string]any{"ids": ids})
			return "POST", "/v1/nodes", string(b)
		}, ok},
		{"neighbours", func(r *rand.Rand) (string, string, string) {
			return "GET", fmt.Sprintf("/v1/neighbors?id=%d", some(r)), ""
		}, ok},
		{"malformed", func(r *rand.Rand) (string, string, string) {
			return "POST", "/v1/predict", []string{"{", `{"nodes": 3}`, `{"nodes": ["x"]}`, `{"nodes": [], "x": 1}`,
				strings.Repeat("[", 1000)}[r.IntN(5)]
		}, func(status int) bool { return status >= 400 && status < 500 }},
	}
	for _, m := range st.Models {
		if !slices.Contains(m.Answers, "/v1/predict") {
			continue
		}
		list = append(list,
			row{"prediction of a node", func(r *rand.Rand) (string, string, string) {
				return "POST", "/v1/predict", fmt.Sprintf(`{"nodes": [%d], "top": 3}`, some(r))
			}, ok},
			row{"prediction of a new node, 5 edges", func(r *rand.Rand) (string, string, string) {
				return "POST",
					"/v1/predict", st.newNode(r, some)
			}, ok},
			row{"explanation", func(r *rand.Rand) (string, string, string) {
				return "POST", "/v1/explain", fmt.Sprintf(`{"node": %d}`, some(r))
			}, ok})
		break
	}
	return list
}

// newNode is a request with a node that the store does not have.
func (st *store) newNode(r *rand.Rand, some func(*rand.Rand) uint64) string {
	node := map[string]any{"id": fmt.Sprint(st.Nodes + 5)}
	if len(st.NodeTypes) > 1 {
		node["type"] = st.NodeTypes[0].Name
	}
	features := map[string]any{}
	for _, c := range st.Columns {
		if c.Role == "feature" && (c.NodeType == "" || c.NodeType == st.NodeTypes[0].Name) {
			x := make([]float64, c.Dim)
			for i := range x {
				x[i] = r.NormFloat64()
			}
			features[c.Name] = x
			break // further ones are computed from the graph
		}
	}
	node["features"] = features
	var edges []map[string]any
	for range 5 {
		e := map[string]any{"src": some(r), "dst": node["id"]}
		if len(st.Relations) > 1 {
			e["relation"] = st.Relations[r.IntN(len(st.Relations))].Name
		}
		edges = append(edges, e)
	}
	b, _ := json.Marshal(map[string]any{"new": []any{node}, "edges": edges, "top": 3})
	return string(b)
}

// measure asks for a while and prints the row.
func measure(address string, w row, clients int, each time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), each)
	defer cancel()
	took, failed := make([][]float64, clients), make([]int, clients)
	var said []byte // by the first that failed
	var once sync.Once
	var wg sync.WaitGroup
	began := time.Now()
	for c := range clients {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(c), 7))
			for ctx.Err() == nil {
				method, path, body := w.ask(r)
				at := time.Now()
				status, b, err := send(address, method, path, body)
				took[c] = append(took[c], 1000*time.Since(at).Seconds())
				if err != nil || !w.status(status) {
					failed[c]++
					once.Do(func() { said = append([]byte(fmt.Sprintf("%v status %d ", err, status)), b...) })
				}
			}
		})
	}
	wg.Wait()
	all, bad := slices.Concat(took...), 0
	for _, n := range failed {
		bad += n
	}
	slices.Sort(all)
	fmt.Printf("%-34s %10.0f %9.2f %9.2f %9.2f %8d\n", w.name, float64(len(all))/time.Since(began).Seconds(),
		all[len(all)/2], all[len(all)*99/100], all[len(all)-1], bad)
	if bad > 0 {
		fmt.Printf("  such as: %.300s\n", said)
	}
	return nil
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// send sends a request and reads the answer.
func send(address, method, path, body string) (int, []byte, error) {
	r, err := http.NewRequest(method, address+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, nil, err
	}
	a, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = a.Body.Close() }()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, b, err
}
