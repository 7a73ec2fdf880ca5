package training

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/tools/cli/command"
)

// sweepFile is what a file of gstore sweep says.
type sweepFile struct {
	Trials int    `yaml:"trials"` // drawn at random; 0: every combination of the lists
	Seed   uint64 `yaml:"seed"`   // of the draws
	Stop   string `yaml:"stop"`   // median or none
	Flags  yaml.Node
}

// choice is what a sweep tries of a flag.
type choice struct {
	flag   string
	values []string // one of these
	// Or a number from min to max, by equal shares of it or, with log, of its logarithm.
	min, max     float64
	ranged       bool
	log, integer bool
}

// trial is the flags of one run, in the file's order.
type trial struct {
	flags [][2]string // name and value
	key   string      // tells trials apart
}

// trialsMost bounds the combinations of a file that says no number of trials: more are likely a mistake.
const trialsMost = 10_000

// readSweep reads a file of a sweep.
func readSweep(path string) (*sweepFile, []choice, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	s := &sweepFile{Stop: "median"}
	dec := yaml.NewDecoder(strings.NewReader(string(b)))
	dec.KnownFields(true)
	if err := dec.Decode(s); err != nil {
		return nil, nil, command.Usagef("%s: %v: expected the keys flags, trials, seed and stop", path, err)
	}
	switch {
	case s.Stop != "median" && s.Stop != "none":
		return nil, nil, command.Usagef("%s: stop: %s: expected median or none", path, s.Stop)
	case s.Trials < 0:
		return nil, nil, command.Usagef("%s: trials: %d: expected 1 or more", path, s.Trials)
	case s.Flags.Kind != yaml.MappingNode || len(s.Flags.Content) == 0:
		return nil, nil, command.Usagef("%s: expected flags: with flags of gstore train and lists of values, such as lr: [.001, .01]", path)
	}
	var choices []choice
	for i := 0; i < len(s.Flags.Content); i += 2 {
		key, value := s.Flags.Content[i], s.Flags.Content[i+1]
		c, err := choiceOf(key.Value, value)
		if err != nil {
			return nil, nil, command.Usagef("%s:%d: %s: %v", path, key.Line, key.Value, err)
		}
		choices = append(choices, c)
	}
	if s.Trials == 0 {
		if k := slices.IndexFunc(choices, func(c choice) bool { return c.ranged }); k >= 0 {
			return nil, nil, command.Usagef("%s: %s is a range, of which values are drawn: say how many trials there are (trials: 20)", path, choices[k].flag)
		}
	}
	return s, choices, nil
}

// choiceOf reads what a sweep tries of a flag: a value, a list of them, or a range {min, max, log}.
func choiceOf(flag string, value *yaml.Node) (c choice, err error) {
	c.flag = flag
	switch value.Kind {
	case yaml.ScalarNode:
		c.values = []string{value.Value}
	case yaml.SequenceNode:
		for _, v := range value.Content {
			switch v.Kind {
			case yaml.ScalarNode:
				c.values = append(c.values, v.Value)
			case yaml.SequenceNode: // a list is one value, such as fanouts
				var parts []string
				for _, p := range v.Content {
					parts = append(parts, p.Value)
				}
				c.values = append(c.values, strings.Join(parts, ","))
			default:
				return c, fmt.Errorf("expected values, or lists of numbers")
			}
		}
		if len(c.values) == 0 {
			return c, fmt.Errorf("an empty list")
		}
	case yaml.MappingNode:
		var r struct {
			Min, Max *float64
			Log      bool
		}
		if err := value.Decode(&r); err != nil || r.Min == nil || r.Max == nil || !(*r.Min < *r.Max) || r.Log && !(*r.Min > 0) {
			return c, fmt.Errorf("expected a range {min: 1e-4, max: 1e-1, log: true}, with min below max, and above 0 for log")
		}
		c.ranged, c.min, c.max, c.log = true, *r.Min, *r.Max, r.Log
		c.integer = c.min == math.Trunc(c.min) && c.max == math.Trunc(c.max) && !strings.ContainsAny(scalars(value), ".eE")
	default:
		return c, fmt.Errorf("expected a value, a list or a range")
	}
	return c, nil
}

// scalars are the numbers of a range as they are written.
func scalars(value *yaml.Node) string {
	var b strings.Builder
	for k := 0; k+1 < len(value.Content); k += 2 {
		if name := value.Content[k].Value; name == "min" || name == "max" {
			b.WriteString(value.Content[k+1].Value + " ")
		}
	}
	return b.String()
}

// draw draws a value.
func (c *choice) draw(r *keyed.Rand) string {
	if !c.ranged {
		return c.values[r.Below(uint64(len(c.values)))]
	}
	share := r.Float64()
	x := c.min + share*(c.max-c.min)
	if c.log {
		x = c.min * math.Pow(c.max/c.min, share)
	}
	if c.integer {
		return strconv.FormatInt(int64(math.Min(math.Floor(c.min+share*(c.max-c.min+1)), c.max)), 10)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// sweepDraws keys the draws of sweeps.
const sweepDraws = 0x7377656570 // "sweep"

// trials lists what a sweep runs: every combination, the last flag's values changing first, or so many drawn ones; each once.
func (s *sweepFile) trials(choices []choice) (list []trial, err error) {
	seen := map[string]bool{}
	add := func(values []string) {
		t := trial{}
		for k, c := range choices {
			t.flags = append(t.flags, [2]string{c.flag, values[k]})
			t.key += fmt.Sprintf("--%s=%s ", c.flag, values[k])
		}
		if t.key = strings.TrimSpace(t.key); !seen[t.key] {
			seen[t.key] = true
			list = append(list, t)
		}
	}
	values := make([]string, len(choices))
	if s.Trials > 0 {
		for i := range 100 * s.Trials { // few combinations are drawn again and again
			r := keyed.New(s.Seed).With(sweepDraws).Rand(uint64(i))
			for k := range choices {
				values[k] = choices[k].draw(&r)
			}
			if add(values); len(list) == s.Trials {
				break
			}
		}
		return list, nil
	}
	all := 1
	for _, c := range choices {
		if all *= len(c.values); all > trialsMost {
			return nil, command.Usagef("more than %d combinations: say how many of them are tried (trials: 20)", trialsMost)
		}
	}
	for i := range all {
		for k, at := len(choices)-1, i; k >= 0; k-- {
			values[k] = choices[k].values[at%len(choices[k].values)]
			at /= len(choices[k].values)
		}
		add(values)
	}
	return list, nil
}
