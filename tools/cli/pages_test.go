package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/tools/cli/benchmarks"
	"github.com/gstore/gstore/tools/cli/command"
)

// pageFlag finds flags of gstore that a page names by themselves, as in `--mem 4GiB`.
var pageFlag = regexp.MustCompile("`(--[a-z][a-z-]*)[^`]*`")

// TestPagesNameCommands: the commands that the pages show, and the flags that they name,
// are gstore's.
func TestPagesNameCommands(t *testing.T) {
	quoted := regexp.MustCompile("`(?:go run \\./tools/)?(gstore(?:-lab)? [^`]+)`")
	inBlock := regexp.MustCompile(`(?m)^(?:go run \./tools/)?(gstore(?:-lab)? .+)$`)
	root := rootOf(newRoot)
	root.AddCommand(benchmarks.NewBench(new(command.Env))) // gstore-lab's
	help := map[string]bool{"--help": true, command.HelpAll: true, command.HelpX: true}
	known := map[string]bool{"--help": true, command.HelpAll: true, command.HelpX: true, "--direct": true, "--layouts": true} // fio's, and of tools/bench/pyg_train.py
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		c.InheritedFlags() // adds the parents' to c.Flags
		c.Flags().VisitAll(func(f *pflag.Flag) { known["--"+f.Name] = true })
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(root)

	var names []string
	err := filepath.WalkDir(filepath.Join("..", "..", "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	commands, flags := 0, 0
	for _, name := range append(names, filepath.Join("..", "..", "README.md")) {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var lines [][]string
		for i, part := range strings.Split(string(page), "```") { // every second one is a block of code
			lines = append(lines, []*regexp.Regexp{quoted, inBlock}[i%2].FindAllStringSubmatch(part, -1)...)
		}
		for _, m := range lines {
			line, _, _ := strings.Cut(m[1], " #")
			args := strings.Fields(line)[1:]
			if !regexp.MustCompile(`^[a-z]+$`).MatchString(args[0]) {
				continue // gstore COMMAND
			}
			commands++
			c, _, err := root.Find(args)
			if err != nil || c == root {
				t.Errorf("%s: %q names no command: %v", name, line, err)
				continue
			}
			c.InheritedFlags()
			for _, arg := range args {
				if flag, _, _ := strings.Cut(strings.Trim(arg, "[]"), "="); strings.HasPrefix(flag, "--") && c.Flags().Lookup(flag[2:]) == nil && !help[flag] {
					t.Errorf("%s: %q: %s has no flag %s", name, line, c.CommandPath(), flag)
				}
			}
		}
		for _, m := range pageFlag.FindAllStringSubmatch(string(page), -1) {
			if flags++; !known[m[1]] {
				t.Errorf("%s names %s, which no command has", name, m[1])
			}
		}
	}
	if commands < 50 || flags < 50 {
		t.Errorf("only %d commands and %d flags were found", commands, flags)
	}
}

// rootOf makes the tree for the flags' sake: with the zero environment nothing can run.
func rootOf[Env any](newRoot func(*Env) *cobra.Command) *cobra.Command { return newRoot(new(Env)) }
