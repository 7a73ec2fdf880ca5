package pages

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gstore/gstore/tools/cli"
)

// argsKey, set in the environment, makes the test binary run as gstore: its own arguments are gstore's.
const argsKey = "GSTORE_PAGES_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(argsKey) != "" {
		os.Exit(cli.Main())
	}
	os.Exit(m.Run())
}

// played are the pages whose blocks of commands (```sh) run, in their order and in one folder, from the repository's root. A
// block of output (```text) behind one says what it prints. The comment above a block that cannot run here says so:
// <!-- not played: why -->.
var played = []string{"README.md", "docs/tutorial.md", "docs/gallery.md", "docs/recipes.md"}

// TestPagesPlay: the commands of the pages work as printed, and print what the pages show.
func TestPagesPlay(t *testing.T) {
	for _, page := range played {
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join("..", "..", page))
			if err != nil {
				t.Fatal(err)
			}
			play(t, string(text))
		})
	}
}

// play runs one page's blocks.
func play(t *testing.T, text string) {
	shell := newShell(t)
	blocks := strings.Split(text, "```")
	ran, printed := 0, ""
	for i := 1; i < len(blocks); i += 2 {
		kind, body, _ := strings.Cut(blocks[i], "\n")
		switch kind {
		case "sh":
			printed = ""
			if strings.Contains(lastLine(blocks[i-1]), "<!-- not played:") {
				continue
			}
			ran++
			began := time.Now()
			printed = shell.run(t, body)
			t.Logf("%.1f s of %s", time.Since(began).Seconds(), strings.TrimSpace(body))
		case "text":
			if printed != "" {
				for _, problem := range differences(body, printed) {
					t.Errorf("%s\nin the output of the block before:\n%s", problem, printed)
				}
			}
		}
	}
	if ran == 0 {
		t.Error("no block was played")
	}
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndex(s, "\n")+1:]
}

// shell is a folder that looks like a clone of the repository, with gstore on its path.
type shell struct {
	folder string
	env    []string
}

func newShell(t *testing.T) shell {
	folder, bin := t.TempDir(), t.TempDir()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "testdata"), filepath.Join(folder, "testdata")); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", argsKey, self)
	if err := os.WriteFile(filepath.Join(bin, "gstore"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return shell{folder, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "COLUMNS=100", "GSTORE_CACHE_DIR="+filepath.Join(folder, "cache"))}
}

// run runs one block, which must succeed, and returns what it prints on both streams.
func (s shell) run(t *testing.T, block string) string {
	t.Helper()
	var out bytes.Buffer
	c := exec.CommandContext(t.Context(), "sh", "-e", "-c", block)
	c.Dir, c.Env, c.Stdout, c.Stderr = s.folder, s.env, &out, &out
	if err := c.Run(); err != nil {
		t.Fatalf("%v of\n%s%s", err, block, out.String())
	}
	return out.String()
}

// number finds numbers with what stands behind them, which says how exact they are.
var number = regexp.MustCompile(`[-+]?\d+(\.\d+)?(e[-+]?\d+)?( ?(%|s\b|CPU s|MiB|KiB|GiB|B\b))?`)

// differences says which lines of a page's output the real output lacks. A line … stands for any number of lines. Words and
// whole numbers must be equal; numbers with a point may differ as other processors' arithmetic makes them, and sizes and times
// as they like. Lines of epochs only have to be there.
func differences(page, real string) (problems []string) {
	lines := strings.Split(real, "\n")
	at := 0
	for want := range strings.Lines(page) {
		want = strings.TrimSpace(want)
		if want == "" || want == "…" {
			continue
		}
		i := at
		for i < len(lines) && !alike(want, strings.TrimSpace(lines[i])) {
			i++
		}
		if i == len(lines) {
			problems = append(problems, fmt.Sprintf("the page shows %q, which does not come", want))
			continue
		}
		at = i + 1
	}
	return problems
}

var epochs = regexp.MustCompile(`(epochs?|run) \d+( of \d+)?|\d+ epochs|, \d+ steps`)

func alike(page, real string) bool {
	page, real = epochs.ReplaceAllString(page, "epochs"), epochs.ReplaceAllString(real, "epochs")
	blank := func(s string) string { return strings.Join(strings.Fields(number.ReplaceAllString(s, "#")), " ") }
	if blank(page) != blank(real) {
		return false
	}
	want, got := number.FindAllStringSubmatch(page, -1), number.FindAllStringSubmatch(real, -1)
	for i := range want {
		if !near(want[i], got[i]) {
			return false
		}
	}
	return true
}

// near compares two matches of number.
func near(want, got []string) bool {
	value := func(m []string) float64 {
		x, _ := strconv.ParseFloat(strings.TrimRight(strings.TrimSuffix(m[0], m[3]), " "), 64)
		return x
	}
	switch {
	case want[4] == "%":
		return math.Abs(value(want)-value(got)) <= 6
	case want[4] != "":
		return true // a size or a time
	case want[1] == "" && want[2] == "":
		return want[0] == got[0]
	}
	return math.Abs(value(want)-value(got)) <= .15*max(1, math.Abs(value(want)))
}
