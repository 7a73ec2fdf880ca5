package command

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// Annotations of flags.
const (
	groupKey  = "group"
	expertKey = "expert"
	valuesKey = "values"
)

// HelpAll is the flag that shows what only experts need; [ShowAll] acts on it.
const HelpAll = "--help-all"

// Group puts a flag under a heading of the help; ",expert" at its end leaves it to --help-all.
func Group(f *pflag.Flag, group string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	name, expert := strings.CutSuffix(group, ",expert")
	f.Annotations[groupKey] = []string{name}
	if expert {
		f.Annotations[expertKey] = nil
	}
}

// Section puts the flags that define makes under a heading of the help; those that have one keep it.
func Section(fs *pflag.FlagSet, group string, define func()) {
	before := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	define()
	fs.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] && len(f.Annotations[groupKey]) == 0 {
			Group(f, group)
		}
	})
}

// GroupOf is the heading that a flag is under; "" = none.
func GroupOf(f *pflag.Flag) string {
	if g := f.Annotations[groupKey]; len(g) > 0 {
		return g[0]
	}
	return ""
}

// Values are what a flag may be: shells complete them.
func Values(f *pflag.Flag, values ...string) {
	if len(values) == 0 {
		return
	}
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[valuesKey] = values
}

// CompleteValues makes shells complete what flags of the command and those below it may be.
func CompleteValues(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if values := f.Annotations[valuesKey]; len(values) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // fails where there is one
		}
	})
	for _, sub := range cmd.Commands() {
		CompleteValues(sub)
	}
}

// Alias keeps the old name of a flag working, in configuration files too: help and messages name the new one.
func Alias(fs *pflag.FlagSet, old, name string) {
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == old {
			given = name
		}
		return pflag.NormalizedName(given)
	})
}

// groupedUsage is the usage of a command whose flags have groups: a heading each, in the order in which they were made.
func groupedUsage(w io.Writer, cmd *cobra.Command, all bool) {
	fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
	var headings []string
	flags := map[string][]*pflag.Flag{}
	hidden := 0
	cmd.LocalFlags().SortFlags = false
	cmd.Flags().SortFlags = false
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		_, expert := f.Annotations[expertKey]
		if expert && !all {
			hidden++
			return
		}
		heading := cmp.Or(GroupOf(f), "Other")
		if !slices.Contains(headings, heading) {
			headings = append(headings, heading)
		}
		flags[heading] = append(flags[heading], f)
	})
	cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { flags["Other"] = append(flags["Other"], f) })
	slices.SortStableFunc(headings, func(a, b string) int { return cmp.Compare(headingRank(a), headingRank(b)) })
	if !slices.Contains(headings, "Other") {
		headings = append(headings, "Other")
	}
	for _, h := range headings {
		fmt.Fprintf(w, "\n%s%s:\n", strings.ToUpper(h[:1]), h[1:])
		writeFlags(w, flags[h])
	}
	if hidden > 0 {
		fmt.Fprintf(w, "\n%d more for experts: gstore %s %s\n", hidden, cmd.Name(), HelpAll)
	}
}

func headingRank(h string) int {
	if h == "Other" {
		return math.MaxInt
	}
	order := []string{"data", "input", "graph", "a column", "what is written", "features and labels", "partitions", "precomputed hop",
		"node classification", "model", "optimiser", "out of core", "link prediction", "answers", "checkpoints", "input and output"}
	if i := slices.Index(order, h); i >= 0 {
		return i
	}
	return len(order)
}

// writeFlags lists flags in two columns, the second one wrapped to the terminal.
func writeFlags(w io.Writer, flags []*pflag.Flag) {
	const names = 26
	width := max(60, Width(w))
	for _, f := range flags {
		head := "  --" + f.Name
		if f.Shorthand != "" {
			head = "  -" + f.Shorthand + ", --" + f.Name
		}
		kind, text := pflag.UnquoteUsage(f)
		if kind != "" {
			head += " " + kind
		}
		if _, bound := f.Value.(*option); !bound && f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(text, "default") {
			text += " (default " + f.DefValue + ")"
		}
		if values := f.Annotations[valuesKey]; len(values) > 0 && !strings.Contains(text, values[len(values)-1]) {
			text, _, _ = strings.Cut(text, " (default")
			text += ": " + strings.Join(values, ", ") + strings.TrimPrefix(f.Usage, text)
		}
		if len(head) < names {
			head += strings.Repeat(" ", names-len(head))
		} else {
			head += "  "
		}
		fmt.Fprint(w, head)
		column := len(head)
		for i, word := range strings.Fields(text) {
			if n := len([]rune(word)) + 1; i > 0 && column+n > width {
				fmt.Fprint(w, "\n", strings.Repeat(" ", names))
				column = names
			} else if i > 0 {
				fmt.Fprint(w, " ")
				column++
			}
			fmt.Fprint(w, word)
			column += len([]rune(word))
		}
		fmt.Fprintln(w)
	}
}

// GroupHelp makes the help of commands whose flags have groups show them; all says whether --help-all asked.
func GroupHelp(root *cobra.Command, all *bool) {
	plain := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		grouped := false
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { grouped = grouped || len(f.Annotations[groupKey]) > 0 })
		if !grouped {
			return plain(cmd)
		}
		groupedUsage(cmd.OutOrStdout(), cmd, *all)
		return nil
	})
}

// Width is the columns of the terminal that w is, or that $COLUMNS says; 100 where there is none.
func Width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 100
}

// Nearest is the one of the names that a mistyped word is two letters or fewer from, and fewer than half of its own; "" for none.
func Nearest(word string, names []string) string {
	best, at := "", 3
	for _, name := range names {
		if d := distance(word, name); d < at && 2*d < len(word)+1 {
			best, at = name, d
		}
	}
	return best
}

// distance is how many letters of a must be changed, added, left out or exchanged with the next one to make b (optimal string
// alignment).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := range len(a) {
		for j := range len(b) {
			change := rows[i][j]
			if a[i] != b[j] {
				change++
			}
			least := min(change, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				least = min(least, rows[i-1][j-1]+1)
			}
			rows[i+1][j+1] = least
		}
	}
	return rows[len(a)][len(b)]
}

// FlagError is a flag that cannot be read, as a usage error that names the nearest one.
func FlagError(cmd *cobra.Command, err error) error {
	text := err.Error()
	_, name, ok := strings.Cut(text, "unknown flag: --")
	if !ok {
		return Usage(err)
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	if near := Nearest(name, names); near != "" {
		return Usagef("%s: did you mean --%s?", text, near)
	}
	return Usage(err)
}
