package options

import (
	"fmt"
	"io"
	"strings"
)

// WritePage writes, of each task, what its options may be, what they need and what they do not go with, as Markdown.
func WritePage(w io.Writer, tasks ...Bound) {
	for _, t := range tasks {
		fmt.Fprintf(w, "\n## %s%s\n", strings.ToUpper(t.Task[:1]), t.Task[1:])
		fmt.Fprintf(w, "\n| option | default | may be |\n|---|---|---|\n")
		for _, f := range t.Fields {
			expected := f.Expected
			if expected == "" {
				expected = "anything"
			}
			fmt.Fprintf(w, "| `%s` | %s | %s |\n", f.spell(), cell(f.Default), cell(expected))
		}
		fmt.Fprintf(w, "\n| | needs, or does not go with | because |\n|---|---|---|\n")
		for _, f := range t.Fields {
			for _, r := range f.Rules {
				f.writeRule(w, r)
			}
		}
	}
}

func (f *Field) spell() string {
	if f.Level == Experimental {
		return "--x " + f.Flag
	}
	return "--" + f.Flag
}

func (f *Field) writeRule(w io.Writer, r RuleText) {
	subject := r.When
	if subject == "" {
		subject = f.spell()
	}
	what := "needs " + r.Needs
	if r.Excludes != "" {
		what = "not with " + r.Excludes
	}
	fmt.Fprintf(w, "| %s | %s | %s |\n", cell(subject), cell(what), cell(r.Why))
}

// cell is a text with its flags in code.
func cell(text string) string {
	text = strings.ReplaceAll(text, "|", `\|`)
	var b strings.Builder
	last := 0
	for _, at := range flag.FindAllStringIndex(text, -1) {
		end := at[1]
		if rest := text[end:]; strings.HasSuffix(text[at[0]:end], "=") {
			end += len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		}
		b.WriteString(text[last:at[0]] + "`" + text[at[0]:end] + "`")
		last = end
	}
	b.WriteString(text[last:])
	return b.String()
}
