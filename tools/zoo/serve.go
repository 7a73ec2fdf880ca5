package zoo

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// serve asks a server of the store of what gstore predict answered, of a new node, and for the page: every request is answered, the server ends
// as it is told to, and what the model says is the same.
func (r *run) serve(answer map[string]any) error {
	args := []string{"serve", r.at("store"), "--listen", "127.0.0.1:0", "--json", "--log", "errors", "--reload", "0"}
	limit, cancel := context.WithTimeout(r.ctx, r.gs.Timeout)
	defer cancel()
	r.gs.Runs++
	cmd := r.gs.command(limit, args)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("zoo: %w", err)
	}
	var event struct{ Event, Address string }
	for d := json.NewDecoder(out); event.Event != "listening"; {
		if err := d.Decode(&event); err != nil {
			_ = cmd.Wait()
			return r.checked("serve", args, errorf("it does not listen: %s", errs.String()))
		}
	}
	problem := r.served(limit, event.Address, answer)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); problem == nil && (err != nil || errs.Len() > 0) {
		problem = errorf("it ended by %v and said %s", err, errs.String())
	}
	return r.checked("serve", args, problem)
}

// served asks a server.
func (r *run) served(ctx context.Context, address string, answer map[string]any) error {
	first := r.g.Nodes[0].ID
	for _, path := range []string{"/v1/store", "/v1/nodes?id=", "/v1/neighbors?id="} {
		if strings.HasSuffix(path, "=") {
			path += url.QueryEscape(first)
		}
		if _, err := request(ctx, "GET", address+path, nil); err != nil {
			return err
		}
	}
	if err := pages(ctx, address, "/?id="+url.QueryEscape(first)); err != nil {
		return err
	}
	if r.c.Task() != "node" {
		return nil
	}
	type said struct {
		Predictions []struct {
			Value         *float64
			Probabilities map[string]float64
		}
	}
	var got, more said
	b, err := request(ctx, "POST", address+"/v1/predict", map[string]any{"nodes": []string{first}})
	if err == nil {
		err = json.Unmarshal(b, &got)
	}
	if err != nil {
		return err
	}
	if len(got.Predictions) != 1 {
		return errorf("%s: expected one prediction", b)
	}
	p := got.Predictions[0]
	if want, ok := answer["value"].(float64); ok {
		p.Probabilities = map[string]float64{"": math.NaN()}
		if p.Value != nil {
			p.Probabilities[""] = *p.Value
		}
		answer = map[string]any{"p_": want}
	}
	for class, x := range p.Probabilities {
		if want, ok := answer["p_"+class].(float64); !ok || !(math.Abs(x-want) <= 2e-3*(1+math.Abs(want))) {
			return errorf("served is %s, gstore predict says %v", b, answer)
		}
	}
	added := map[string]any{"id": "4000000000"}
	if len(r.g.Types) > 1 {
		added["type"] = r.g.Types[0]
	}
	edge := map[string]any{"src": first, "dst": added["id"]}
	if len(r.g.Relations) > 1 {
		edge["relation"] = r.g.Relations[0].Name
	}
	b, err = request(ctx, "POST", address+"/v1/predict", map[string]any{"new": []any{added}, "edges": []any{edge},
		"nodes": []string{first}})
	if err == nil {
		err = json.Unmarshal(b, &more)
	}
	if err == nil && len(more.Predictions) != 2 {
		err = errorf("%s: expected two predictions", b)
	}
	return err
}

// linked are the links of pages to other pages.
var linked = regexp.MustCompile(`<a href="(/[^"]*)"`)

// mostPages is how many pages are looked at.
const mostPages = 12

// pages gets the first page, a node's, and those that they lead to, until none loads itself again: each is there, and has neither a script nor
// what is no number.
func pages(ctx context.Context, address, node string) error {
	queue, seen := []string{"/", node}, map[string]bool{"/": true, node: true}
	for k := 0; k < len(queue) && k < mostPages; {
		b, err := request(ctx, "GET", address+queue[k], nil)
		if err != nil {
			return err
		}
		text := string(b)
		if strings.Contains(text, "<script") || strings.Contains(text, "NaN") || !strings.HasSuffix(strings.TrimSpace(text), "</html>") {
			return errorf("GET %s: %s", queue[k], text)
		}
		if strings.Contains(text, `http-equiv="refresh"`) || strings.Contains(text, "They are counted") {
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return errorf("GET %s is not made: %w", queue[k], ctx.Err())
			}
		}
		for _, l := range linked.FindAllStringSubmatch(text, -1) {
			to := html.UnescapeString(l[1])
			if path, _, _ := strings.Cut(to, "?"); !seen[to] && !strings.HasPrefix(path, "/openapi") && path != "/metrics" {
				queue, seen[to] = append(queue, to), true
			}
		}
		k++
	}
	return nil
}

// request sends a request that must be answered.
func request(ctx context.Context, method, address string, body any) ([]byte, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Body.Close() }()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = errorf("%s %s %s: status %d: %s", method, address, text, a.StatusCode, firstLines(string(b), 3))
	}
	return b, err
}
