package options

import (
	"regexp"
	"strings"
)

// Refusal is the error of a configuration that a table refuses.
type Refusal struct {
	// Text says what was found, what was expected and what to do, in sentences with flags as on a command line.
	Text string
	is   error
}

// flag is an option as on a command line: --mem, --x prune, --x prune=.
var flag = regexp.MustCompile(`--(x )?([a-z][a-z-]*)(=?)`)

// Error names options as fields and keyword arguments are, in programs: batch_size for --batch-size.
func (r *Refusal) Error() string {
	return "train: " + flag.ReplaceAllStringFunc(r.Text, func(s string) string {
		m := flag.FindStringSubmatch(s)
		name := strings.ReplaceAll(m[2], "-", "_")
		if m[3] != "" {
			name += " "
		}
		return name
	})
}

// Unwrap returns what the refusal matches beside being one; nil for nothing.
func (r *Refusal) Unwrap() error { return r.is }

// Nearest is the one of the names that a mistyped word is two letters or fewer from, and fewer than half of its own;
// "" for none.
func Nearest(word string, names []string) string {
	best, at := "", 3
	for _, name := range names {
		if d := distance(word, name); d < at && 2*d < len(word)+1 {
			best, at = name, d
		}
	}
	return best
}

// distance is how many letters of a must be changed, added, left out or exchanged with the next one to make b
// (optimal string alignment).
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
