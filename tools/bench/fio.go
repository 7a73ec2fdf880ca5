package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
)

// fioReaders are fio's ways to read direct that are worth comparing with: one
// ring of depth 32 with registered buffers and files, and 32 threads.
func fioReaders(path string) ([]reader, error) {
	if path == "" {
		path = "fio"
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return nil, err
	}
	make := func(name string, args ...string) reader {
		return reader{name: name, run: func(ctx context.Context, test, file string, n int64) (float64, float64, error) {
			a := append([]string{"--name=gstore", "--output-format=json", "--direct=1", "--thread", "--group_reporting", "--filename=" + file}, args...)
			switch test {
			case "sequential":
				a = append(a, "--rw=read", "--bs=1M")
			case "random64K":
				a = append(a, "--rw=randread", "--bs=64K", "--randrepeat=1")
			}
			return runFio(ctx, path, n, a)
		}}
	}
	return []reader{
		make("fio io_uring", "--ioengine=io_uring", "--iodepth=32", "--fixedbufs=1", "--registerfiles=1", "--numjobs=1"),
		make("fio psync", "--ioengine=psync", "--numjobs=32"),
	}, nil
}

// fioOutput is what we read of fio's JSON.
type fioOutput struct {
	Jobs []struct {
		Options struct {
			Jobs string `json:"numjobs"`
		} `json:"job options"`
		Error   int     `json:"error"`
		UserPct float64 `json:"usr_cpu"` // of the jobs' summed run time
		SysPct  float64 `json:"sys_cpu"`
		Elapsed float64 `json:"job_runtime"` // ms, summed over the group's jobs
		Read    struct {
			Bytes   int64   `json:"io_bytes"`
			Runtime float64 `json:"runtime"` // ms
		} `json:"read"`
	} `json:"jobs"`
}

// runFio reads n bytes of the file, shared among the jobs, and returns seconds and CPU seconds.
func runFio(ctx context.Context, path string, n int64, args []string) (seconds, cpu float64, err error) {
	jobs := int64(1)
	for _, a := range args {
		_, _ = fmt.Sscanf(a, "--numjobs=%d", &jobs)
	}
	share := n / jobs
	args = append(args, fmt.Sprintf("--size=%d", share), fmt.Sprintf("--io_size=%d", share), fmt.Sprintf("--offset_increment=%d", share))
	cmd := exec.CommandContext(ctx, path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("fio: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return parseFio(out, n)
}

// parseFio reads fio's JSON of a run that should have read n bytes.
func parseFio(out []byte, n int64) (seconds, cpu float64, err error) {
	at := bytes.IndexByte(out, '{') // fio may print notes first
	if at < 0 {
		return 0, 0, fmt.Errorf("fio printed no JSON: %.100q", out)
	}
	var o fioOutput
	if err := json.Unmarshal(out[at:], &o); err != nil {
		return 0, 0, fmt.Errorf("fio's JSON: %w", err)
	}
	if len(o.Jobs) != 1 || o.Jobs[0].Error != 0 {
		return 0, 0, fmt.Errorf("fio failed: %d jobs, %+v", len(o.Jobs), o.Jobs)
	}
	j := o.Jobs[0]
	if j.Read.Bytes < n*99/100 || j.Read.Runtime <= 0 {
		return 0, 0, fmt.Errorf("fio read %d bytes of %d in %v ms", j.Read.Bytes, n, j.Read.Runtime)
	}
	// bytes actually read may differ by a rounding of the shares
	scale := float64(n) / float64(j.Read.Bytes)
	return j.Read.Runtime / 1000 * scale, (j.UserPct + j.SysPct) / 100 * j.Elapsed / 1000 * scale, nil
}
