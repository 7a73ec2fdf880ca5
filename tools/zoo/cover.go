package zoo

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// Axis is one choice that a case makes. Its first value is the plainest one, which a failing case is reduced to.
type Axis struct {
	Name   string
	Values []string
}

// Case is a value of each axis, by the axis' name. What an axis does not name is its plainest value.
type Case map[string]string

// Rule says which values two axes may not have at once.
type Rule struct {
	A, B   string
	Forbid func(a, b string) bool
}

// String writes the axes whose value is not the plainest one, in the order of [Axes]: what [ParseCase] reads.
func (c Case) String() string {
	var parts []string
	for _, a := range Axes {
		if v := c.Get(a.Name); v != a.Values[0] {
			parts = append(parts, a.Name+"="+v)
		}
	}
	if len(parts) == 0 {
		return Axes[0].Name + "=" + Axes[0].Values[0]
	}
	return strings.Join(parts, ",")
}

// Get returns the value of an axis.
func (c Case) Get(axis string) string {
	if v, ok := c[axis]; ok {
		return v
	}
	for _, a := range Axes {
		if a.Name == axis {
			return a.Values[0]
		}
	}
	panic("zoo: no axis " + axis) // a programming error
}

// Is reports whether the axis has one of the values.
func (c Case) Is(axis string, values ...string) bool { return slices.Contains(values, c.Get(axis)) }

// ParseCase reads what [Case.String] writes.
func ParseCase(text string) (Case, error) {
	c := Case{}
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		name, value, ok := strings.Cut(part, "=")
		i := slices.IndexFunc(Axes, func(a Axis) bool { return a.Name == name })
		if !ok || i < 0 {
			return nil, fmt.Errorf("case %q: expected AXIS=VALUE of an axis of the zoo, got %q", text, part)
		}
		if !slices.Contains(Axes[i].Values, value) {
			return nil, fmt.Errorf("case %q: axis %s has the values %s, got %q", text, name, strings.Join(Axes[i].Values, ", "), value)
		}
		c[name] = value
	}
	return c, nil
}

// Allowed reports whether no rule forbids the case.
func Allowed(c Case, rules []Rule) bool {
	for _, r := range rules {
		if r.Forbid(c.Get(r.A), c.Get(r.B)) {
			return false
		}
	}
	return true
}

// cover holds which pairs of values have been met: pairs[i][j] for axes i < j, a flag for each value of i and each of j.
type cover struct {
	axes   []Axis
	index  map[string]int
	rules  [][]Rule // by axis: the rules that name it
	met    [][][]bool
	missed map[[4]int]bool // pairs that are allowed, and that no case was found for
}

// Cover returns cases in which, together, every pair of values of two axes occurs that the rules allow: a covering array of strength
// two. It is greedy: of several random completions the one that meets most new pairs is taken. The same seed gives the same cases.
// missed counts pairs that no case could be found for, as other axes forbid them.
func Cover(axes []Axis, rules []Rule, seed uint64) (cases []Case, missed int) {
	c := newCover(axes, rules)
	rng := rand.New(rand.NewPCG(seed, 2))
	const tries = 12
	for {
		i, j, a, b, ok := c.unmet(rng)
		if !ok {
			return cases, len(c.missed)
		}
		var best []int
		gain := 0
		for range tries {
			if values := c.complete(rng, i, j, a, b); values != nil {
				if g := c.gain(values); g > gain {
					best, gain = values, g
				}
			}
		}
		if best == nil { // rules of other axes leave nothing for this pair
			c.met[i][j][a*len(axes[j].Values)+b] = true
			c.missed[[4]int{i, j, a, b}] = true
			continue
		}
		c.take(best)
		k := Case{}
		for i, v := range best {
			k[axes[i].Name] = axes[i].Values[v]
		}
		cases = append(cases, k)
	}
}

func newCover(axes []Axis, rules []Rule) *cover {
	c := &cover{axes: axes, index: map[string]int{}, rules: make([][]Rule, len(axes)), met: make([][][]bool, len(axes)), missed: map[[4]int]bool{}}
	for i, a := range axes {
		c.index[a.Name] = i
	}
	for _, r := range rules {
		for _, name := range []string{r.A, r.B} {
			c.rules[c.index[name]] = append(c.rules[c.index[name]], r)
		}
	}
	for i := range axes {
		c.met[i] = make([][]bool, len(axes))
		for j := i + 1; j < len(axes); j++ {
			c.met[i][j] = make([]bool, len(axes[i].Values)*len(axes[j].Values))
			values := c.none()
			for a := range axes[i].Values {
				for b := range axes[j].Values {
					values[i], values[j] = a, b
					c.met[i][j][a*len(axes[j].Values)+b] = !c.fits(values, i) // a forbidden pair counts as met
				}
			}
		}
	}
	return c
}

// none is an assignment without any value.
func (c *cover) none() []int {
	values := make([]int, len(c.axes))
	for i := range values {
		values[i] = -1
	}
	return values
}

// fits reports whether the rules that name axis i allow its value beside those that are there.
func (c *cover) fits(values []int, i int) bool {
	for _, r := range c.rules[i] {
		a, b := c.index[r.A], c.index[r.B]
		if values[a] >= 0 && values[b] >= 0 && r.Forbid(c.axes[a].Values[values[a]], c.axes[b].Values[values[b]]) {
			return false
		}
	}
	return true
}

// unmet draws a pair that has not been met.
func (c *cover) unmet(rng *rand.Rand) (i, j, a, b int, ok bool) {
	n, m := len(c.axes), 0
	from := rng.IntN(n * n)
	for k := range n * n {
		i, j = (from+k)%(n*n)/n, (from+k)%n
		if i >= j {
			continue
		}
		if m = slices.Index(c.met[i][j], false); m >= 0 {
			return i, j, m / len(c.axes[j].Values), m % len(c.axes[j].Values), true
		}
	}
	return 0, 0, 0, 0, false
}

// complete gives every axis a value, axis by axis in a random order: of those that fit the one that meets most new pairs. An axis that
// the others leave without one comes first the next time. nil: there was always such an axis.
func (c *cover) complete(rng *rand.Rand, i, j, a, b int) []int {
	order := rng.Perm(len(c.axes))
	for range 8 {
		values := c.none()
		values[i], values[j] = a, b
		at := slices.IndexFunc(order, func(k int) bool {
			return values[k] < 0 && !c.choose(rng, values, k)
		})
		if at < 0 {
			return values
		}
		k := order[at]
		order = slices.Insert(slices.Delete(order, at, at+1), 0, k)
	}
	return nil
}

// choose gives axis k the value that fits and meets most new pairs, and reports whether there was one.
func (c *cover) choose(rng *rand.Rand, values []int, k int) bool {
	best, most := -1, -1
	for _, v := range rng.Perm(len(c.axes[k].Values)) {
		values[k] = v
		if !c.fits(values, k) {
			continue
		}
		if g := c.gainOf(values, k); g > most {
			best, most = v, g
		}
	}
	values[k] = best
	return best >= 0
}

// gainOf counts the pairs of axis k's value with those that are there which are new.
func (c *cover) gainOf(values []int, k int) (n int) {
	for o, v := range values {
		if v < 0 || o == k {
			continue
		}
		if i, j := min(o, k), max(o, k); !c.met[i][j][values[i]*len(c.axes[j].Values)+values[j]] {
			n++
		}
	}
	return n
}

func (c *cover) gain(values []int) (n int) {
	for k := range values {
		n += c.gainOf(values, k)
	}
	return n / 2
}

// take marks all pairs of a case as met.
func (c *cover) take(values []int) {
	for j := range values {
		for i := range j {
			c.met[i][j][values[i]*len(c.axes[j].Values)+values[j]] = true
			delete(c.missed, [4]int{i, j, values[i], values[j]})
		}
	}
}

// Wild draws a case of base's graph and files in whose ingest and commands half of the values are drawn as if there were no rules: most
// such cases are refused, and must be so in a documented way.
func Wild(base Case, axes []Axis, rng *rand.Rand) Case {
	c, behind := maps.Clone(base), false
	for _, a := range axes {
		if behind && rng.IntN(2) == 0 {
			c[a.Name] = a.Values[rng.IntN(len(a.Values))]
		}
		behind = behind || a.Name == "ids"
	}
	return c
}
