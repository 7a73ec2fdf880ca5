// Package progresstest kills training processes, for tests that resume them.
package progresstest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"
)

// childEnv makes a test binary a training process, so that there is one to kill: it holds a job as JSON.
const childEnv = "GSTORE_TRAIN_CHILD"

// Main is TestMain of a package whose tests call Killed: in a process that Killed started it runs the job.
func Main[Job any](m *testing.M, run func(*Job) error) {
	if text := os.Getenv(childEnv); text != "" {
		job := new(Job)
		err := json.Unmarshal([]byte(text), job)
		if err == nil {
			err = run(job)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Killed runs job in processes that get SIGKILL after random mini-batches, for each of which a job
// prints a line, until one ends by itself, and returns how many did not.
func Killed[Job any](t *testing.T, job Job) int {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 1))
	for kills := range 200 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+string(text))
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(out)
		for range rng.IntN(60) {
			if _, err := in.ReadString('\n'); err != nil {
				break
			}
		}
		time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
		_ = cmd.Process.Kill()
		_, _ = in.WriteTo(new(bytes.Buffer))
		err = cmd.Wait()
		var exit *exec.ExitError
		if err == nil {
			return kills
		}
		if !errors.As(err, &exit) || exit.Exited() {
			t.Fatalf("the process to be killed failed by itself: %v: %s", err, errs.Bytes())
		}
	}
	t.Fatal("no end")
	return 0
}
