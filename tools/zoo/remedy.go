package zoo

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	smallest = regexp.MustCompile(`the smallest that works is (\d+) ?MiB`)
	// without names a flag that a message wants left out, given one that it wants.
	without    = regexp.MustCompile(`(?:without|leave out|drop|omit) (--[a-z][a-z-]*)`)
	experiment = regexp.MustCompile(`say --x ([a-z][a-z-]*)=([^ ,;]+)`)
	other      = regexp.MustCompile(`gstore ([a-z]+)(?: [A-Z]+)*(?: --[a-z][a-z-]*)+`)
	given      = regexp.MustCompile(`(--[a-z][a-z-]*)(?:[ =]([A-Za-z0-9_.,/:%-]+))?`)
)

// Smallest is the budget, in MiB, that a refusal names; 0 = none.
func Smallest(message string) int {
	found := smallest.FindStringSubmatch(message)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}

// Remedies are the command lines that a refusal names, in its order: the same one with the smallest budget, without a flag, or with
// another value of one. Words that cannot be a value end a flag. A message that names a command is not followed.
func Remedies(args []string, message string) (lines [][]string) {
	add := func(line []string) {
		if !slices.Equal(line, args) && !slices.ContainsFunc(lines, func(l []string) bool { return slices.Equal(l, line) }) {
			lines = append(lines, line)
		}
	}
	if n := Smallest(message); n > 0 {
		return [][]string{SetFlag(args, "--mem", strconv.Itoa(n)+"MiB")}
	}
	message = other.ReplaceAllStringFunc(message, func(line string) string {
		if strings.Fields(line)[1] == args[0] {
			return line
		}
		return ""
	})
	if f := experiment.FindStringSubmatch(message); f != nil {
		return [][]string{append(RemoveFlag(args, "--"+f[1]), "--x", f[1]+"="+f[2])}
	}
	for _, f := range without.FindAllStringSubmatch(message, -1) {
		add(RemoveFlag(args, f[1]))
	}
	for _, f := range given.FindAllStringSubmatch(without.ReplaceAllString(message, ""), -1) {
		value := strings.TrimRight(f[2], ".,:")
		switch {
		case slices.Contains(switches, f[1]):
			if !slices.Contains(args, f[1]) {
				add(append(slices.Clone(args), f[1]))
			}
		case value == "" || value == strings.ToUpper(value) && value != strings.ToLower(value): // a name of what is to be given
		case slices.Contains(words, value) || value == FlagOf(args, f[1]):
		case f[1] == "--header" && value == "yes": // no file of the zoo that gstore must ask about has one
		default:
			add(SetFlag(args, f[1], value))
		}
	}
	return lines
}

// switches are flags without a value.
var switches = []string{"--undirected", "--normalize", "--missing-mask", "--overwrite", "--resume", "--history", "--precomputed-hop", "--edge-weights",
	"--no-embeddings", "--residual", "--each-relation", "--report", "--json", "--quiet", "--internal", "--allow-outside"}

// words follow a flag in a sentence and are no value.
var words = []string{"and", "or", "is", "of", "for", "to", "needs", "reads", "takes", "with", "without", "the", "has", "must", "wants", "says", "in", "on",
	"where", "which", "a", "an", "than", "are", "only", "names", "was", "as", "does", "by", "beside", "alone", "may", "makes", "made", "expects", "adds"}

// FlagOf is a flag's value; "" = it is not given.
func FlagOf(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// SetFlag returns args with a flag's value replaced or added.
func SetFlag(args []string, flag, value string) []string {
	args = slices.Clone(args)
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		args[i+1] = value
		return args
	}
	return append(args, flag, value)
}

// RemoveFlag returns args without a flag and its value.
func RemoveFlag(args []string, flag string) []string {
	i := slices.Index(args, flag)
	if i < 0 {
		return args
	}
	if slices.Contains(switches, flag) {
		return slices.Delete(slices.Clone(args), i, i+1)
	}
	return slices.Delete(slices.Clone(args), i, min(i+2, len(args)))
}
