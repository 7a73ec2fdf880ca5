package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/gstore/gstore/gpu/options"
)

// Annotations of flags.
const (
	groupKey  = "group"
	expertKey = "expert"
	xKey      = "x" // of hidden flags, which are names of --x, and of flags, with their values that only --x takes
	valuesKey = "values"
)

// Flags that ask for more help than --help: HelpAll for what only experts need, HelpX for what --x takes.
const (
	HelpAll = "--help-all"
	HelpX   = "--help-x"
)

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

// Expert says that a flag is left to [HelpAll].
func Expert(f *pflag.Flag) bool {
	_, expert := f.Annotations[expertKey]
	return expert
}

// Experiment is a flag as [HelpX] lists it; nil where --x does not take it.
func Experiment(f *pflag.Flag) *pflag.Flag {
	if _, x := f.Annotations[xKey]; x {
		return nameOfX(f)
	}
	return nil
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

// CompleteValues makes shells complete what flags of the command and those below it may be. Cobra keeps such flags, and with them the whole
// command, until the process ends: it is for a process that does nothing else.
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

// groupedUsage is the usage of a command whose flags have groups: a heading each, in the order in which they were
// made. asked is the flag that asked for it.
func groupedUsage(w io.Writer, cmd *cobra.Command, asked string) {
	cmd.LocalFlags().SortFlags = false
	cmd.Flags().SortFlags = false
	flags := map[string][]*pflag.Flag{}
	experts, unproven := 0, 0
	cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) {
		if x := Experiment(f); x != nil {
			unproven++
			if asked == HelpX {
				flags[GroupOf(f)] = append(flags[GroupOf(f)], x)
			}
		}
		switch {
		case f.Hidden || asked == HelpX:
		case Expert(f) && asked != HelpAll:
			experts++
		default:
			heading := cmp.Or(GroupOf(f), otherHeading)
			flags[heading] = append(flags[heading], f)
		}
	})
	if asked != HelpX {
		fmt.Fprintf(w, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example)
		cmd.InheritedFlags().VisitAll(func(f *pflag.Flag) { flags[otherHeading] = append(flags[otherHeading], f) })
	} else {
		fmt.Fprintf(w, xUsage, cmd.Name())
	}
	headings := slices.Sorted(maps.Keys(flags))
	slices.SortStableFunc(headings, func(a, b string) int { return cmp.Compare(headingRank(a), headingRank(b)) })
	for _, h := range headings {
		fmt.Fprintf(w, "\n%s%s:\n", strings.ToUpper(h[:1]), h[1:])
		writeFlags(w, flags[h])
	}
	if experts > 0 {
		fmt.Fprintf(w, "\n%d more for experts: gstore %s %s\n", experts, cmd.Name(), HelpAll)
	}
	if unproven > 0 && asked != HelpX {
		fmt.Fprintf(w, "\n%d for experiments, given as --x NAME=VALUE: gstore %s %s\n", unproven, cmd.Name(), HelpX)
	}
}

// otherHeading is that of flags without a group.
const otherHeading = "Other"

func headingRank(h string) int {
	if h == otherHeading {
		return math.MaxInt
	}
	order := []string{"data", "input", "graph", "a column", "what is written", "features and labels", "partitions", "precomputed hop",
		"node classification", "model", "optimiser", "out of core", "link prediction", "answers", "checkpoints", "input and output"}
	if i := slices.Index(order, h); i >= 0 {
		return i
	}
	return len(order)
}

// UsageOf is what a flag's value is called, "" of a switch, and what the flag does, with its default and its values.
func UsageOf(f *pflag.Flag) (kind, text string) {
	kind, text = pflag.UnquoteUsage(f)
	if showsDefault(f) && !strings.Contains(text, "default") {
		text += " (default " + f.DefValue + ")"
	}
	_, isX := f.Value.(xValue) // has a list of its own
	if values := f.Annotations[valuesKey]; !isX && len(values) > 0 && !strings.Contains(text, values[len(values)-1]) {
		text, _, _ = strings.Cut(text, " (default")
		text += ": " + strings.Join(values, ", ") + strings.TrimPrefix(f.Usage, text)
	}
	return kind, text
}

// writeFlags lists flags in two columns, the second one wrapped to the terminal.
func writeFlags(w io.Writer, flags []*pflag.Flag) {
	const names = 26
	width := max(60, Width(w))
	for _, f := range flags {
		head := "  --" + f.Name
		if _, x := f.Value.(moved); x {
			head = "  " + f.Name + "="
		}
		if f.Shorthand != "" {
			head = "  -" + f.Shorthand + ", --" + f.Name
		}
		kind, text := UsageOf(f)
		switch {
		case kind != "" && strings.HasSuffix(head, "="):
			head += strings.ToUpper(kind)
		case kind != "":
			head += " " + kind
		default:
			head = strings.TrimSuffix(head, "=")
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

// showsDefault reports whether the help of a flag adds its default, which options' help has already.
func showsDefault(f *pflag.Flag) bool {
	switch f.Value.(type) {
	case *option, moved:
		return false
	}
	return !slices.Contains([]string{"", "0", "false", "[]"}, f.DefValue)
}

// GroupHelp makes the help of commands whose flags have groups show them; asked is the flag that asked.
func GroupHelp(root *cobra.Command, asked *string) {
	plain, help := root.UsageFunc(), root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if *asked == HelpX {
			groupedUsage(cmd.OutOrStdout(), cmd, HelpX)
			return
		}
		help(cmd, args)
	})
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		grouped := false
		cmd.NonInheritedFlags().VisitAll(func(f *pflag.Flag) { grouped = grouped || len(f.Annotations[groupKey]) > 0 })
		if !grouped {
			return plain(cmd)
		}
		groupedUsage(cmd.OutOrStdout(), cmd, *asked)
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

// FlagError is a flag that cannot be read, as a usage error that names the nearest one.
func FlagError(cmd *cobra.Command, err error) error {
	if m := (movedError{}); errors.As(err, &m) {
		return Usage(m)
	}
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
	if near := options.Nearest(name, names); near != "" {
		return Usagef("%s: did you mean --%s?", text, near)
	}
	return Usage(err)
}
