package inspect_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli"
)

func writeMetrics(t *testing.T, epochs int) string {
	t.Helper()
	return writeRun(t, epochs, nil, metrics.End{BestEpoch: 2, TestAccuracy: metrics.Number(.875)})
}

// writeRun writes the file of a run with a configuration, or as it was written before there were any, and a result.
func writeRun(t *testing.T, epochs int, config map[string]any, end metrics.End) string {
	t.Helper()
	var b bytes.Buffer
	w := metrics.NewWriter(&b)
	if config != nil {
		if err := w.Begin("a.gstore", config); err != nil {
			t.Fatal(err)
		}
	}
	for e := range epochs {
		s := buffer.Stats{Engine: "pread", Policy: "hanoi", Epoch: e, BytesRead: 12_300_000, Stall: 200 * time.Millisecond, Start: time.Duration(e) * time.Second}
		for k := range 4 {
			at := s.Start + time.Duration(k)*250*time.Millisecond
			s.Steps = append(s.Steps, buffer.StepStats{Epoch: e, Step: k, Begin: at, End: at + 200*time.Millisecond, Stall: 50 * time.Millisecond})
		}
		for k := range 11 {
			s.Samples = append(s.Samples, buffer.BandwidthSample{At: s.Start + time.Duration(k)*buffer.SampleInterval, Bytes: 1 << 20, Train: 80 * time.Millisecond})
		}
		var rows *cache.Traffic
		if e == 1 { // of a device that keeps rows
			rows = cache.NewTraffic(cache.NameLookahead, cache.Stats{Hits: 300_000, Misses: 100_000}, 1000, 0)
		}
		if err := w.EpochRows(s, rows); err != nil {
			t.Fatal(err)
		}
		r := metrics.Result{Epoch: e + 1, Loss: metrics.Number(1 / float64(e+1)), TrainAccuracy: metrics.Number(.5)}
		if e == 0 { // validated once: a curve of one point
			r.ValidAccuracy = metrics.Number(.25)
		}
		if err := w.Result(r); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []metrics.ConfusionRow{{Split: "test", Label: "a <b>", Predicted: map[string]int64{"a <b>": 31, "c": 1}}, {Split: "test", Label: "c"}} {
		if err := w.Confusion(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(end); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "run.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The page stands alone: no script, nothing fetched, every chart well-formed.
func TestReportPageStandsAlone(t *testing.T) {
	out := filepath.Join(t.TempDir(), "report.html")
	var stdout, stderr bytes.Buffer
	if code := cli.Run(t.Context(), []string{"report", writeMetrics(t, 2), "-o", out, "--json"}, nil, &stdout, &stderr); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	if !strings.Contains(stdout.String(), `"epochs":2`) || !strings.Contains(stdout.String(), `"samples":20`) {
		t.Errorf("summary: %s", &stdout)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, bad := range []string{"<script", "src=", "@import", "url(http", "<link"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if n := strings.Count(page, "<svg"); n != 5 {
		t.Errorf("%d charts, expected 5", n)
	}
	for _, want := range []string{"Loss of training", "Accuracy", `<dt>test accuracy</dt><dd>87.50 %</dd>`, `<dd>2 of 2</dd>`, `title="a &lt;b&gt; predicted as a &lt;b&gt;: 96.9 %">31</td>`, `</i>validation <span`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if !strings.Contains(page, "<td>12.3</td>") {
		t.Error("the table lacks the bytes read")
	}
	if !strings.Contains(page, "<th>device keeps</th>") || strings.Count(page, "<td>lookahead</td><td>75.0</td><td>100.0</td><td>300.0</td>") != 1 {
		t.Error("the table lacks what the device keeps")
	}
	for rest := page; ; {
		i := strings.Index(rest, "<svg")
		if i < 0 {
			break
		}
		j := i + strings.Index(rest[i:], "</svg>") + len("</svg>")
		d := xml.NewDecoder(strings.NewReader(rest[i:j]))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		rest = rest[j:]
	}
}

func TestReportRefuses(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	garbage := filepath.Join(t.TempDir(), "garbage.jsonl")
	if err := os.WriteFile(garbage, []byte("PK\x03\x04\nmore\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(events, []byte("{\"event\":\"start\"}\n{\"event\":\"epoch\",\"epoch\":1,\"loss\":2}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"report", events}, cli.ExitFailed, "not the file of --metrics"},
		{[]string{"report"}, cli.ExitUsage, "FILE"},
		{[]string{"report", "/does/not/exist"}, cli.ExitFailed, "/does/not/exist"},
		{[]string{"report", empty}, cli.ExitFailed, "no epoch"},
		{[]string{"report", garbage}, cli.ExitFailed, "line 1"},
	} {
		var stdout, stderr bytes.Buffer
		if code := cli.Run(t.Context(), c.args, nil, &stdout, &stderr); code != c.code || !strings.Contains(stderr.String(), c.text) {
			t.Errorf("%v: exit code %d, %s", c.args, code, &stderr)
		}
	}
}
