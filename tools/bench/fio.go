package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// fioReaders are fio's ways to read and write direct that are worth comparing
// with: one ring of depth 32 with registered buffers and files, the same with its buffers in huge
// pages, as ours are, and 32 threads.
func fioReaders(path string) ([]reader, error) {
	if path == "" {
		path = "fio"
	}
	path, err := exec.LookPath(path)
	if err != nil {
		return nil, err
	}
	make := func(name string, env []string, args ...string) reader {
		return reader{name: name, run: func(ctx context.Context, test, file string, n int64) (float64, float64, error) {
			a := append([]string{"--name=gstore", "--output-format=json", "--direct=1", "--thread", "--group_reporting", "--filename=" + file}, args...)
			switch test {
			case "sequential":
				a = append(a, "--rw=read", "--bs=1M")
			case "random64K":
				a = append(a, "--rw=randread", "--bs=64K", "--randrepeat=1")
			case "write", newFile:
				a = append(a, "--rw=write", "--bs=1M", "--end_fsync=1")
			}
			return runFio(ctx, path, env, n, a)
		}}
	}
	ring := []string{"--ioengine=io_uring", "--iodepth=32", "--fixedbufs=1", "--registerfiles=1", "--numjobs=1"}
	readers := []reader{
		make("fio io_uring", nil, ring...),
		// glibc (2.35 on) advises the kernel to back large allocations, such as fio's buffers, by huge pages.
		make("fio io_uring, huge pages", []string{"GLIBC_TUNABLES=glibc.malloc.hugetlb=1"}, ring...),
		make("fio psync", nil, "--ioengine=psync", "--numjobs=32"),
	}
	if hugePagesFree() >= fioHugePages {
		readers = append(readers, make("fio io_uring, hugetlbfs", nil, append(ring, "--iomem=mmaphuge")...))
	}
	return readers, nil
}

// fioHugePages of 2 MiB hold 32 buffers of 1 MiB, and some.
const fioHugePages = 32

// hugePagesFree is how many reserved huge pages nobody uses; most machines reserve none.
func hugePagesFree() (n int) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "HugePages_Free:"); ok {
			_, _ = fmt.Sscan(rest, &n)
		}
	}
	return n
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
		Read    fioSide `json:"read"`
		Write   fioSide `json:"write"`
	} `json:"jobs"`
}

type fioSide struct {
	Bytes   int64   `json:"io_bytes"`
	Runtime float64 `json:"runtime"` // ms
}

// runFio reads or writes n bytes of the file, shared among the jobs, and returns seconds and CPU seconds.
func runFio(ctx context.Context, path string, env []string, n int64, args []string) (seconds, cpu float64, err error) {
	jobs := int64(1)
	for _, a := range args {
		_, _ = fmt.Sscanf(a, "--numjobs=%d", &jobs)
	}
	share := n / jobs
	args = append(args, fmt.Sprintf("--size=%d", share), fmt.Sprintf("--io_size=%d", share), fmt.Sprintf("--offset_increment=%d", share))
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("fio: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return parseFio(out, n)
}

// parseFio reads fio's JSON of a run that should have read or written n bytes.
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
	side := j.Read
	if side.Bytes == 0 {
		side = j.Write
	}
	if side.Bytes < n*99/100 || side.Runtime <= 0 {
		return 0, 0, fmt.Errorf("fio moved %d bytes of %d in %v ms", side.Bytes, n, side.Runtime)
	}
	// bytes actually moved may differ by a rounding of the shares
	scale := float64(n) / float64(side.Bytes)
	return side.Runtime / 1000 * scale, (j.UserPct + j.SysPct) / 100 * j.Elapsed / 1000 * scale, nil
}
