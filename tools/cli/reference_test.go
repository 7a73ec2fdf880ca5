package cli

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/tools/cli/command"
)

var rewrite = flag.Bool("rewrite", false, "write docs/reference instead of comparing it")

// reference is where a page for each command lies.
var reference = filepath.Join("..", "..", "docs", "reference")

// madeOf marks a page that is made here.
const madeOf = "<!-- Made of the command's help by: go test ./tools/cli -run Reference -rewrite -->"

// TestReference: docs/reference has a page for each command, made of its help, and its index names them all.
// go test ./tools/cli -run Reference -rewrite makes the pages anew.
func TestReference(t *testing.T) {
	pages := map[string]string{}
	for _, c := range rootOf(newRoot).Commands() {
		if !c.Hidden {
			pages[c.Name()+".md"] = referencePage(c)
		}
	}
	if *rewrite {
		for name, text := range pages {
			if err := os.WriteFile(filepath.Join(reference, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	index, err := os.ReadFile(filepath.Join(reference, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	files, err := filepath.Glob(filepath.Join(reference, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		name := filepath.Base(path)
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(got), madeOf) {
			continue // written by hand
		}
		made++
		if want := pages[name]; want == "" {
			t.Errorf("docs/reference/%s is of no command", name)
		} else if string(got) != want {
			t.Errorf("docs/reference/%s is not what gstore %s --help-all says: go test ./tools/cli -run Reference -rewrite", name, strings.TrimSuffix(name, ".md"))
		}
		if !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/reference/README.md does not link to %s", name)
		}
	}
	if made != len(pages) {
		t.Errorf("docs/reference has %d pages for %d commands: go test ./tools/cli -run Reference -rewrite", made, len(pages))
	}
}

// referencePage is the page of a command and those below it.
func referencePage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", c.CommandPath(), madeOf)
	writeReference(&b, c)
	for _, sub := range c.Commands() {
		fmt.Fprintf(&b, "\n## %s\n\n", sub.CommandPath())
		writeReference(&b, sub)
	}
	b.WriteString("\nFlags of every command are in the [reference](README.md#flags-of-every-command).\n")
	return b.String()
}

// writeReference writes what a command does, examples, and a table for each group of flags; those for experts come last.
func writeReference(b *strings.Builder, c *cobra.Command) {
	text := c.Long
	if text == "" {
		text = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	for _, paragraph := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.Contains("\n"+paragraph, "\n  ") {
			fmt.Fprintf(b, "```\n%s\n```\n\n", paragraph)
		} else {
			fmt.Fprintf(b, "%s\n\n", wrapped(escape(paragraph)))
		}
	}
	c.LocalFlags() // adds the flags of all commands, as running it does
	fmt.Fprintf(b, "```\n%s\n```\n", c.UseLine())
	if c.Example != "" {
		fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", unindent(c.Example))
	}
	var groups, expert []string
	rows := map[string][]string{}
	add := func(list *[]string, group, name string, f *pflag.Flag) {
		if rows[group] == nil {
			*list = append(*list, group)
		}
		kind, usage := command.UsageOf(f)
		if kind != "" {
			kind = "`" + strings.ReplaceAll(kind, "|", `\|`) + "`"
		}
		rows[group] = append(rows[group], fmt.Sprintf("| `%s` | %s | %s |", name, kind, cell(usage)))
	}
	var experiments []string
	c.LocalFlags().SortFlags = false
	c.Flags().SortFlags = false
	c.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if x := command.Experiment(f); x != nil {
			add(&experiments, "for experiments, each given as `--x NAME=VALUE`", f.Name, x)
		}
		switch group := cmp.Or(command.GroupOf(f), "flags"); {
		case f.Hidden || f.Name == "help":
		case command.Expert(f):
			add(&expert, group+", for experts", "--"+f.Name, f)
		default:
			add(&groups, group, "--"+f.Name, f)
		}
	})
	if i := slices.Index(groups, "flags"); i >= 0 { // those without a group come last
		groups = append(slices.Delete(groups, i, i+1), "flags")
	}
	for _, g := range slices.Concat(groups, expert, experiments) {
		fmt.Fprintf(b, "\n%s%s:\n\n| flag | value | |\n|---|---|---|\n%s\n", strings.ToUpper(g[:1]), g[1:], strings.Join(rows[g], "\n"))
	}
}

// escape keeps Markdown from reading a help text's marks as its own.
func escape(s string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`).Replace(strings.TrimSpace(s))
}

// wrapped breaks a paragraph into lines as wide as the pages'.
func wrapped(s string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(s) {
		switch n := utf8.RuneCountInString(word); {
		case column == 0:
			column = n
		case column+1+n > 118:
			b.WriteString("\n")
			column = n
		default:
			b.WriteString(" ")
			column += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}

func cell(s string) string {
	return strings.ReplaceAll(escape(strings.Join(strings.Fields(s), " ")), "|", `\|`)
}

func unindent(s string) string {
	return strings.TrimPrefix(strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n  ", "\n"), "  ")
}
