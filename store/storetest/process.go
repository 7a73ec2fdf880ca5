package storetest

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

const childEnv = "GSTORE_TEST_CHILD" // "role directory": what a re-executed test binary does

// Main is a package's TestMain. In a process that [Start] made it runs child instead of the tests. Of rapid's 100
// random cases tests run fewer, unless -rapid.checks or the environment says otherwise.
func Main(m *testing.M, child func(role, dir string) error) {
	if arg, ok := os.LookupEnv(childEnv); ok {
		role, dir, _ := strings.Cut(arg, " ")
		if err := child(role, dir); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if flag.Lookup("rapid.checks") != nil {
		if err := flag.Set("rapid.checks", strconv.Itoa(100/Every(4))); err != nil {
			panic(err) // the test's own mistake
		}
	}
	os.Exit(m.Run())
}

// Process is a child under way; End closes its stdin, waits and returns its output.
type Process struct {
	Cmd *exec.Cmd
	Out *bufio.Reader
	End func() (string, error)
}

// Start runs the test binary again as a child of that role, and waits for its "ready".
func Start(t *testing.T, role, dir string) *Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role+" "+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	p := &Process{Cmd: cmd, Out: bufio.NewReader(out)}
	if line, err := p.Out.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s: %q, %v", role, line, err)
	}
	p.End = func() (string, error) {
		_ = in.Close()
		line, _ := p.Out.ReadString('\n')
		return strings.TrimSpace(line), cmd.Wait()
	}
	return p
}
