package table

import (
	"slices"
	"strings"
	"unicode"
)

// endWords are words by which the names of the two ends of an edge differ, as from_account and to_account do. Their order says which is the
// source.
var endWords = [][2]string{
	{"src", "dst"}, {"src", "dest"}, {"source", "target"}, {"source", "destination"}, {"source", "dest"}, {"from", "to"}, {"head", "tail"},
	{"sender", "receiver"}, {"sender", "recipient"}, {"payer", "payee"}, {"orig", "dest"}, {"origin", "dest"}, {"origin", "destination"},
	{"originator", "beneficiary"}, {"follower", "followee"}, {"follower", "followed"}, {"citing", "cited"}, {"caller", "callee"},
	{"start", "end"}, {"1", "2"}, {"a", "b"}, {"x", "y"},
}

// idWords end the names of columns of ids, nodeWords those of columns of nodes.
var (
	idWords   = []string{"id", "ids", "key", "nr", "no", "number", "code", "uid", "uuid", "guid", "identifier", "index", "idx"}
	nodeWords = []string{"node", "entity", "account", "wallet", "address", "user", "person", "author", "member", "customer", "company", "page", "gene", "protein"}
)

// Words are those that a name is made of, in lower case: txId1 is tx, id and 1.
func Words(name string) (out []string) {
	begin := 0
	runes := []rune(strings.TrimSpace(name))
	end := func(k int) {
		if k > begin {
			out = append(out, strings.ToLower(string(runes[begin:k])))
		}
		begin = k
	}
	for k, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			end(k)
			begin = k + 1
		case k == 0:
		case unicode.IsDigit(r) != unicode.IsDigit(runes[k-1]),
			unicode.IsUpper(r) && (unicode.IsLower(runes[k-1]) || k+1 < len(runes) && unicode.IsLower(runes[k+1])):
			end(k)
		}
	}
	end(len(runes))
	return out
}

// repeatedEnds are the two columns that have one name, which ends as those of ids or nodes do and no third has: Person.id and Person.id, or
// Account and Account.1, which pandas makes of the second.
func repeatedEnds(names []string) (src, dst int, ok bool) {
	at := map[string][]int{}
	for k, n := range names {
		first, again := strings.CutSuffix(n, ".1")
		if again && slices.Contains(names, first) {
			n = first
		}
		key := strings.ToLower(strings.TrimSpace(n))
		at[key] = append(at[key], k)
	}
	src = -1
	for k, n := range names {
		w, both := Words(n), at[strings.ToLower(strings.TrimSpace(n))]
		if len(both) != 2 || both[0] != k || len(w) == 0 {
			continue
		}
		if last := w[len(w)-1]; !(len(w) > 1 && slices.Contains(idWords, last)) && !slices.Contains(nodeWords, last) {
			continue
		}
		if src >= 0 {
			return -1, -1, false
		}
		src, dst = both[0], both[1]
	}
	return src, dst, src >= 0
}

// NameApart calls the second of two columns that are the ends by one name as pandas does: Account.1.
func NameApart(names []string) {
	if src, dst, ok := repeatedEnds(names); ok && names[src] == names[dst] {
		names[dst] += ".1"
	}
}

// pairedEnds are the two columns whose names differ by one of endWords alone; ok is false where no two do, or several.
func pairedEnds(names []string) (src, dst int, ok bool) {
	found := PairsOfEnds(names)
	if len(found) != 1 {
		return -1, -1, false
	}
	return found[0][0], found[0][1], true
}

// PairsOfEnds are the pairs of columns whose names differ by one of endWords alone. Where there are several, those whose names are ids' count,
// or else names'.
func PairsOfEnds(names []string) [][2]int {
	split := make([][]string, len(names))
	for k, n := range names {
		split[k] = Words(n)
	}
	var found, ids, called [][2]int
	for i, a := range split {
		for j, b := range split {
			if i == j || !endsOf(a, b, split) {
				continue
			}
			found = append(found, [2]int{i, j})
			switch {
			case slices.ContainsFunc(a, func(w string) bool { return slices.Contains(idWords, w) }):
				ids = append(ids, [2]int{i, j})
			case slices.ContainsFunc(a, func(w string) bool { return slices.Contains(IdNames, w) }):
				called = append(called, [2]int{i, j})
			}
		}
	}
	switch {
	case len(found) <= 1:
		return found
	case len(ids) > 0:
		return ids
	}
	return called
}

// endsOf reports whether the names of words a and b are those of a source and of a destination, among those of all columns.
func endsOf(a, b []string, all [][]string) bool {
	at := -1
	for k := range a {
		if len(a) != len(b) || a[k] != b[k] && at >= 0 {
			return false
		}
		if a[k] != b[k] {
			at = k
		}
	}
	if at < 0 || !slices.Contains(endWords, [2]string{a[at], b[at]}) {
		return false
	}
	if a[at] == "x" { // or coordinates
		return len(a) > 1 && slices.ContainsFunc(a, func(w string) bool { return slices.Contains(idWords, w) })
	}
	if a[at] != "1" && a[at] != "a" {
		return true
	}
	// One of many numbered columns is no end, nor is a number or a letter alone.
	return len(a) > 1 && !slices.ContainsFunc(all, func(c []string) bool {
		return len(c) == len(a) && slices.Contains([]string{"0", "3", "c"}, c[at]) && slices.Equal(c[:at], a[:at]) && slices.Equal(c[at+1:], a[at+1:])
	})
}

// NumberedEnds reports whether two names differ by a number or a letter alone, as node_1 and node_2 do: they may as well be those of two
// nodes.
func NumberedEnds(src, dst string) bool {
	for k, w := range Words(src) {
		if d := Words(dst); k < len(d) && d[k] != w {
			return w == "1" || w == "a"
		}
	}
	return false
}

// TypesOfEnds are the types that the only two columns are called by whose names end with id, TYPE_id or TypeId, where they differ: the ends of
// edges between nodes of two types. ends are the columns' places. ok is false where columns are called as ends are, or others are of ids.
func TypesOfEnds(names []string, o *Options) (ends [2]int, types [2]string, ok bool) {
	if _, named := EdgeMeanings(names, o); named || len(PairsOfEnds(names)) > 0 {
		return ends, types, false
	}
	found := 0
	for k, n := range names {
		if w := Words(n); len(w) > 1 && w[len(w)-1] == "id" {
			if found < 2 {
				ends[found], types[found] = k, strings.Join(w[:len(w)-1], "_")
			}
			found++
		} else if len(w) == 1 && slices.Contains(IdNames, w[0]) && w[0] != "name" {
			return ends, types, false // a row of its own
		}
	}
	return ends, types, found == 2 && types[0] != types[1]
}

// DifferByWord reports whether two names are made of as many words, of which they have all but one, or all, in common.
func DifferByWord(a, b string) bool {
	x, y := Words(a), Words(b)
	differ := 0
	for k := range min(len(x), len(y)) {
		if x[k] != y[k] {
			differ++
		}
	}
	return len(x) == len(y) && len(x) > 1 && differ <= 1
}

// IsID reports whether a column of nodes' ids may be called so.
func IsID(name string) bool {
	if slices.Contains(IdNames, strings.ToLower(strings.TrimSpace(name))) {
		return true
	}
	w := Words(name)
	return len(w) > 1 && slices.Contains(idWords, w[len(w)-1])
}
