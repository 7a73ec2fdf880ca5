package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/bench"
)

// gstore stands for the program of an archive: $LOSS is a second run's.
const gstore = `#!/bin/sh
case "$*" in
*devices) echo '{"event":"device","name":"host","detail":"avx2"}'; echo '{"event":"device","name":"cuda:0","detail":"X","capability":"9.0","memory_bytes":8589934592}';;
*"bench ops"*) echo '{"event":"operation","name":"gather 128 float32","seconds":0.001,"bytes":1e9,"gb_s":1000,"copy_gb_s":2000,"share":0.5,"target":0.85}';;
*"bench sample"*) echo '{"event":"round","batches":2,"sampled_edges":4000000,"inputs":1000,"seconds":2,"device_seconds":1,"sent_bytes":1e6,"block_bytes":2e7}'; echo '{"event":"summary","checked":2}';;
*"bench train"*) echo '{"event":"result","model":"sage","device":"cuda:0","step_s":0.01,"device_s":0.009}';;
*generate*) ;;
*again.gsm) echo "{\"event\":\"epoch\",\"epoch\":1,\"loss\":$LOSS}";;
*--device-plan*) echo '{"event":"epoch","epoch":1,"loss":0.4,"seconds":3,"valid_seconds":0.5,"device_seconds":2,"device_idle_seconds":1,"device_copy_seconds":1.5,"device_sample_seconds":0.25,"device_waits":2,"batches":40,"replayed_batches":38}';;
*train*host*) echo '{"event":"epoch","epoch":1,"loss":0.5001}';;
*train*) echo '{"event":"epoch","epoch":1,"loss":0.5}';;
esac
`

// peers stands for the script, where Python has PyTorch.
const peers = `print('{"event":"operation","name":"mm","seconds":1}\\n{"event":"result","model":"sage"}')
`

// dryRun runs an archive of such programs and returns its outcomes by name, and both reports.
func dryRun(t *testing.T, files map[string]string, args ...string) (outcomes map[string]string, r report, text string, err error) {
	dir := t.TempDir()
	for name, s := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(s), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	err = command(t.Context(), append([]string{"run", "-dry", "-dir", dir}, args...))
	b, rerr := os.ReadFile(filepath.Join(dir, "report.json"))
	if rerr != nil {
		return nil, r, "", err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	md, rerr := os.ReadFile(filepath.Join(dir, "report.md"))
	if rerr != nil {
		t.Fatal(rerr)
	}
	outcomes = map[string]string{}
	for _, c := range r.Checks {
		outcomes[c.Name] = c.Outcome
	}
	return outcomes, r, string(md), err
}

func TestDryRun(t *testing.T) {
	t.Setenv("LOSS", "0.5")
	t.Setenv("PATH", "/usr/bin:/bin") // no compute-sanitizer
	got, r, text, err := dryRun(t, map[string]string{"gstore": gstore, "peers.py": peers, "cuda.test": "#!/bin/sh\n"})
	if err != nil || !r.Dry {
		t.Errorf("%v\n%s", err, text)
	}
	for name, want := range map[string]string{"devices": passed, "tests": passed, "memcheck": leftOut, "operations": passed, "sampling": passed, "steps": passed, "training": passed, "training again": passed, "training without recordings": passed, "training on the host": passed, "rows by the partition": passed, "mini-batches drawn there": passed} {
		if got[name] != want {
			t.Errorf("%s: %q, expected %s", name, got[name], want)
		}
	}
	for _, want := range []string{"| 2.0 | 4.0 | 2000000 | 500 | 1.00 | 20.00 |", "| gather 128 float32 | 1000.0 | 1000 |  | 0.50 | 0.85 missed |", "| cuda:0 | X | 9.0 | 8.0 |", "compute-sanitizer is not there", "| 1 | 0.400000 | 0.00 | 3.00 | 0.50 | 2.00 | 1.00 | 1.50 | 0.25 | 2 | 40 | 38 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// Everything that can be wrong is told, and keeps nothing else from running.
func TestFailures(t *testing.T) {
	t.Setenv("LOSS", "0.5000001")
	t.Setenv("PATH", "/usr/bin:/bin")
	got, _, text, err := dryRun(t, map[string]string{"gstore": gstore, "peers.py": peers, "cuda.test": "#!/bin/sh\necho '--- FAIL: TestConformance'\nexit 1\n"})
	if err == nil || got["tests"] != failed || got["training again"] != failed || got["training on the host"] != passed || got["operations"] != passed {
		t.Errorf("%v: %v", err, got)
	}
	for _, want := range []string{"--- FAIL: TestConformance", "expected the same bits"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if got, _, _, err := dryRun(t, map[string]string{"gstore": "#!/bin/sh\necho '{\"event\":\"device\",\"name\":\"host\"}'\n"}, "-only", "devices,tests"); err == nil || got["devices"] != failed || got["tests"] != failed || len(got) != 2 {
		t.Errorf("without a GPU, and without tests in the archive: %v, %v", err, got)
	}
	if _, _, _, err := dryRun(t, nil, "-only", "devices,speed"); err == nil || !strings.Contains(err.Error(), `no check "speed"`) {
		t.Errorf("a check that there is not: %v", err)
	}
}

// TestPeers runs the script itself on the processor, on batches that gstore-lab bench dumped: its lines are what the report reads. The Python
// is that of GSTORE_PYTHON_VENV, or the machine's; one without PyTorch is no failure.
func TestPeers(t *testing.T) {
	python := "python3"
	if venv := os.Getenv("GSTORE_PYTHON_VENV"); venv != "" {
		python = filepath.Join(venv, "bin", "python")
	}
	dir := t.TempDir()
	z := small
	z.peers = "cpu"
	all, err := choose(checks(".", dir, z), "operations of PyTorch,steps of PyTorch")
	if err != nil {
		t.Fatal(err)
	}
	all[0].args[0], all[1].args[0] = python, python
	if why := all[0].missing(t.Context()); why != "" {
		t.Skip(why)
	}
	var want bench.TrainResult
	o := bench.TrainOptions{Dir: dir, Nodes: 400, Edges: 3000, Models: []string{"sage"}, Dims: []int{128}, Hidden: []int{16}, Fanouts: []int{3, 2},
		BatchSize: 20, Batches: 3, Repeats: 1, Threads: []int{1}, Classes: 4, DumpDir: filepath.Join(dir, "batches")}
	if err := bench.RunTrain(t.Context(), o, func(r bench.TrainResult) { want = r }); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		r := c.run(t.Context())
		if r.Outcome != passed || len(r.Rows) == 0 {
			t.Fatalf("%s: %s: %s", c.name, r.Outcome, r.Why)
		}
		if c.name == "steps of PyTorch" {
			got := of(r.Events, "result")[0]
			if math.Abs(got.number("sampled_edges")-want.Edges) > 1e-6*want.Edges || got.number("step_s") <= 0 || got.number("loss") <= 0 {
				t.Errorf("PyTorch trained %v, gstore %+v", got, want)
			}
		}
	}
	if out, err := exec.CommandContext(t.Context(), python, "peers.py", "ops", "--device", "cuda").CombinedOutput(); err == nil || !strings.Contains(string(out), "finds no GPU") {
		if !strings.Contains(string(out), `"operation"`) {
			t.Errorf("without a GPU: %v, %s", err, out)
		}
	}
}

// TestFullSizesHaveAllChecks: what a dry run leaves out, a run does.
func TestFullSizesHaveAllChecks(t *testing.T) {
	all := checks("/a", "/w", full)
	if !slices.ContainsFunc(all, func(c check) bool { return c.name == "feeding" }) || len(all) != len(checks("/a", "/w", small))+1 {
		t.Errorf("%d checks", len(all))
	}
	for _, c := range all {
		if c.limit <= 0 || c.what == "" {
			t.Errorf("%s has a limit of %v", c.name, c.limit)
		}
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"gstore": 0o755, "peers.py": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := archiveFolder(&b, dir, "gpucheck"); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&b)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = h.Mode & 0o111
	}
	if len(got) != 2 || got["gpucheck/gstore"] == 0 || got["gpucheck/peers.py"] != 0 {
		t.Errorf("the archive has %v", got)
	}
}
