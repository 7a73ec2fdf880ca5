package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// blasServer is tools/bench/openblas_gemm.py --serve: OpenBLAS in a process of
// its own, asked for one product at a time, so that both are measured by turns.
type blasServer struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startBLAS(ctx context.Context, command []string, threads int) (*blasServer, error) {
	args := append(append([]string{}, command[1:]...), fmt.Sprint(threads), "--serve")
	s := &blasServer{cmd: exec.CommandContext(ctx, command[0], args...)}
	s.cmd.Stderr = os.Stderr
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start OpenBLAS by %v: %w", command, err)
	}
	s.in, s.out = in, bufio.NewScanner(out)
	return s, nil
}

// rate returns OpenBLAS's GFLOP/s for a product.
func (s *blasServer) rate(g gemmShape) (float64, error) {
	if _, err := fmt.Fprintln(s.in, g.kind, g.m, g.k, g.n); err != nil {
		return 0, fmt.Errorf("ask OpenBLAS: %w", err)
	}
	if !s.out.Scan() {
		return 0, errors.Join(errors.New("OpenBLAS gave no answer"), s.out.Err())
	}
	var r struct {
		GFLOPS float64 `json:"gflops"`
	}
	if err := json.Unmarshal(s.out.Bytes(), &r); err != nil || !(r.GFLOPS > 0) {
		return 0, fmt.Errorf("OpenBLAS answered %q: %w", s.out.Text(), err)
	}
	return r.GFLOPS, nil
}

// close ends the process.
func (s *blasServer) close() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }
