package training_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// terminal opens a pseudo terminal of so many columns; said closes it and returns what was written to it.
func terminal(t *testing.T, columns uint16) (tty *os.File, said func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: columns})
	}
	if err == nil {
		tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skip(err)
	}
	text := make(chan string)
	go func() {
		b, _ := io.ReadAll(master) // ends with EIO when the other end is closed
		text <- string(b)
	}()
	return tty, func() string {
		_ = tty.Close()
		defer func() { _ = master.Close() }()
		return <-text
	}
}

// TestProgressInEpoch: on a terminal training shows how many mini-batches of the epoch are done, in lines that fit it; elsewhere, and
// with --quiet, nothing.
func TestProgressInEpoch(t *testing.T) {
	for name, args := range map[string][]string{
		"node": {"train", coraStore(t), "--hidden", "4", "--epochs", "2", "--batch-size", "20"},
		"link": {"train", smallKG(t), "--dim", "8", "--negatives", "10", "--epochs", "2", "--batch-size", "100", "--overwrite"},
	} {
		for _, quiet := range []bool{false, true} {
			if quiet {
				args = append(args, "--quiet")
			}
			tty, said := terminal(t, 50)
			var stdout strings.Builder
			code := cli.Run(t.Context(), args, strings.NewReader(""), &stdout, tty)
			text := said()
			if code != cli.ExitOK {
				t.Fatalf("%s: exit code %d: %q", name, code, text)
			}
			if quiet {
				if text != "" {
					t.Errorf("%s --quiet: %q", name, text)
				}
				continue
			}
			if !regexp.MustCompile(`epoch 1, mini-batches +\d+%`).MatchString(text) || !strings.Contains(text, "epoch 2, mini-batches") || !strings.Contains(text, "epoch 1, validation") {
				t.Errorf("%s: progress %q", name, text)
			}
			for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\r' || r == '\n' }) {
				if n := len([]rune(line)); n >= 50 {
					t.Errorf("%s: a line of %d columns in a terminal of 50: %q", name, n, line)
				}
			}
			if last := text[strings.LastIndexByte(strings.TrimRight(text, "\r"), '\r')+1:]; strings.TrimSpace(last) != "" {
				t.Errorf("%s: progress is left on the screen: %q", name, last)
			}
		}
	}
	if code, _, stderr := clitest.Run(t, "train", coraStore(t), "--hidden", "4", "--epochs", "1"); code != cli.ExitOK || stderr != "" {
		t.Errorf("without a terminal: exit code %d, %q", code, stderr)
	}
}

// TestColors: on a terminal the best epochs are green, the result is bold and errors are red; elsewhere, and with NO_COLOR, nothing is.
func TestColors(t *testing.T) {
	args := []string{"train", coraStore(t), "--hidden", "4", "--epochs", "2"}
	run := func(args []string) string {
		tty, said := terminal(t, 100)
		cli.Run(t.Context(), args, strings.NewReader(""), tty, tty)
		return said()
	}
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	text := run(args)
	for _, want := range []string{"\x1b[2mepoch ", "\x1b[1mtest accuracy "} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if !regexp.MustCompile(`\x1b\[32m *[0-9.]+\*\x1b\[0m`).MatchString(text) {
		t.Errorf("no epoch is green in %q", text)
	}
	if text := run([]string{"train", "/does/not/exist"}); !strings.Contains(text, "\x1b[1;31mgstore:\x1b[0m ") {
		t.Errorf("an error says %q", text)
	}
	t.Setenv("NO_COLOR", "1")
	if text := run(args); strings.Contains(text, "\x1b[") {
		t.Errorf("with NO_COLOR: %q", text)
	}
	t.Setenv("NO_COLOR", "")
	if _, stdout, stderr := clitest.Run(t, args...); strings.Contains(stdout+stderr, "\x1b") {
		t.Errorf("without a terminal: %q", stdout)
	}
}
