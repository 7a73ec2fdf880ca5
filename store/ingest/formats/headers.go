package formats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// headerColumns reads the first line of an edge list, that is no comment, as one
// that names its fields. specs is what TextOptions.Columns would say: fields
// that are neither ends, relation, weight nor timestamp are features where the lines
// that follow have numbers, and skipped elsewhere; it is nil if no names of both
// ends are there. certain says that the line can be nothing else: it has the
// names src and dst, or source and target.
func headerColumns(text []byte, delimiter byte) (specs []string, certain bool) {
	var names []string
	var numbers []bool
	var fields [][]byte
	for len(text) > 0 {
		var line []byte
		if line, text = nextLine(text); comment(line) {
			continue
		}
		if fields = splitLine(fields[:0], line, delimiter); names == nil {
			for _, f := range fields {
				names, numbers = append(names, string(f)), append(numbers, true)
			}
			continue
		}
		for k := range min(len(fields), len(numbers)) {
			numbers[k] = numbers[k] && isNumber(fields[k])
		}
	}
	meaning := make([]string, len(names))
	for _, m := range edgeMeanings() {
		for _, known := range m.known {
			k := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, known) })
			if k >= 0 && meaning[k] == "" {
				meaning[k] = m.name
				break
			}
		}
	}
	if !slices.Contains(meaning, "src") || !slices.Contains(meaning, "dst") {
		return nil, false
	}
	has := func(name string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
	certain = has("src") && has("dst") || has("source") && has("target")
	for k := 0; k < len(names); k++ {
		switch base, n := numbered(names[k:]); {
		case meaning[k] != "":
			specs = append(specs, meaning[k])
		case !numbers[k] || names[k] == "" || strings.ContainsAny(names[k], ":*,"):
			specs = append(specs, "-")
		case n > 1:
			specs = append(specs, fmt.Sprintf("%s*%d", base, n))
			k += n - 1
		default:
			specs = append(specs, names[k])
		}
	}
	return specs, certain
}

// numbered returns the name that NAME.0, NAME.1, … at the front of names share, and how many they are.
func numbered(names []string) (base string, n int) {
	base, ok := strings.CutSuffix(names[0], ".0")
	if !ok || base == "" {
		return names[0], 1
	}
	for n < len(names) && names[n] == base+"."+strconv.Itoa(n) {
		n++
	}
	return base, n
}

// edgeMeaning is a field of an edge and what columns that hold it are called.
type edgeMeaning struct {
	name  string
	known []string
}

func edgeMeanings() []edgeMeaning {
	return []edgeMeaning{{"src", srcNames}, {"dst", dstNames}, {"relation", relNames}, {"weight", weightNames}, {"timestamp", timeNames}}
}
