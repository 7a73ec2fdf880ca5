package command

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// Size is a number of bytes, with a unit or without.
type Size int64

var sizeUnits = []struct {
	suffix string
	bytes  float64
}{
	{"tib", 1 << 40}, {"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10},
	{"tb", 1e12}, {"gb", 1e9}, {"mb", 1e6}, {"kb", 1e3}, {"b", 1},
	{"t", 1 << 40}, {"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10},
}

// ParseSize reads "4GiB", "512 MiB", "4G", which is 4 GiB as elsewhere on Linux, "1.5GB" or a plain number of bytes.
func ParseSize(s string) (int64, error) {
	number, factor := strings.ToLower(strings.TrimSpace(s)), 1.0
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.suffix); ok {
			number, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) || v*factor > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is no size: expected a number with KiB, MiB, GiB or TiB, such as 4GiB", s)
	}
	return int64(v * factor), nil
}

// FormatSize writes bytes with the largest unit of 1024.
func FormatSize(n int64) string {
	v, unit := float64(n), 0
	for v >= 1024 && unit < 4 {
		v, unit = v/1024, unit+1
	}
	name := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit]
	if unit == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, name)
	}
	return fmt.Sprintf("%.1f %s", v, name)
}

// FormatPercent writes a share such as an accuracy in percent, or "none" for a negative one, which stands for no nodes to compute it from.
func FormatPercent(share float64) string {
	if share < 0 {
		return "none"
	}
	return fmt.Sprintf("%.2f %%", 100*share)
}

// FormatNumber writes a number of any unit in five digits, without an exponent where people need none.
func FormatNumber(x float64) string {
	if size := math.Abs(x); size >= 1e-4 && size < 1e9 {
		return strconv.FormatFloat(x, 'f', max(0, 4-int(math.Floor(math.Log10(size)))), 64)
	}
	return strconv.FormatFloat(x, 'g', 5, 64)
}

// String implements pflag.Value.
func (f *Size) String() string {
	if *f == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(*f), 10)
}

// Set implements pflag.Value.
func (f *Size) Set(s string) error {
	n, err := ParseSize(s)
	*f = Size(n)
	return err
}

// Type implements pflag.Value.
func (f *Size) Type() string { return "size" }

// ScratchFlag adds --scratch: the directory for temporary files of a command that has a store open.
func ScratchFlag(fs *pflag.FlagSet, dir *string) {
	fs.StringVar(dir, "scratch", "", "directory for temporary files of what does not fit --mem (default: tmp in the store; the system's where the store cannot be written)")
}

// ConfigFlag adds --config: a YAML file whose keys are the command's flags.
func ConfigFlag(fs *pflag.FlagSet, path *string) {
	fs.StringVar(path, "config", "", "YAML file with flags as keys, such as \"batch-size: 500\"; flags given beside it win")
}

// ApplyConfig sets the flags that a --config file names and the command line
// does not. Errors name the file, the line and the key.
func ApplyConfig(cmd *cobra.Command, path string) error {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return Usagef("%s: %v", path, err)
	}
	if len(doc.Content) == 0 { // empty
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return Usagef("%s:%d: expected flags as keys, such as \"batch-size: 500\"", path, root.Line)
	}
	lines := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		f := cmd.Flags().Lookup(key.Value)
		if f == nil || key.Value == "config" {
			return Usagef("%s is no flag of %s (see gstore %s --help)", at, cmd.Name(), cmd.Name())
		}
		if line := lines[key.Value]; line > 0 {
			return Usagef("%s is there already, on line %d", at, line)
		}
		lines[key.Value] = key.Line
		if f.Changed && key.Value != "x" {
			continue
		}
		if err := setFlag(cmd.Flags(), f, value); err != nil {
			return Usagef("%s: %v", at, err)
		}
	}
	return nil
}

// setFlag sets a flag to what a file says. What is given by --x has a key of its own too, as files have that are
// older than --x.
func setFlag(fs *pflag.FlagSet, f *pflag.Flag, value *yaml.Node) error {
	if x, ok := f.Value.(xValue); ok {
		return x.setAll(value)
	}
	text, err := flagText(value)
	if err != nil {
		return err
	}
	switch v := f.Value.(type) {
	case moved:
		if v.given { // on the command line, which wins
			return nil
		}
		return v.take(text)
	case *option:
		f.Changed = true
		return v.take(text)
	}
	return fs.Set(f.Name, text)
}

// setAll sets what a file says under x.
func (x xValue) setAll(values *yaml.Node) error {
	if values.Kind != yaml.MappingNode {
		return errors.New("expected names with values, such as \"x: {prune: 1,1}\"")
	}
	for i := 0; i < len(values.Content); i += 2 {
		name := values.Content[i].Value
		text, err := flagText(values.Content[i+1])
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if p := x.o.find(name); p != nil && p.given { // on the command line, which wins
			continue
		}
		if err := x.Set(name + "=" + text); err != nil {
			return err
		}
	}
	return nil
}

// flagText writes a YAML value as on a command line: a list with commas.
func flagText(v *yaml.Node) (string, error) {
	switch v.Kind {
	case yaml.AliasNode:
		return flagText(v.Alias)
	case yaml.ScalarNode:
		return v.Value, nil
	case yaml.SequenceNode:
		items := make([]string, len(v.Content))
		for i, c := range v.Content {
			if c.Kind != yaml.ScalarNode {
				return "", fmt.Errorf("line %d: expected a number or a word", c.Line)
			}
			items[i] = c.Value
		}
		return strings.Join(items, ","), nil
	}
	return "", errors.New("expected a value or a list of values")
}

// Count is a number of things: 2000000, 2M, 1.5G (decimal prefixes k, M, G, T).
type Count uint64

func (c *Count) String() string { return strconv.FormatUint(uint64(*c), 10) }
func (c *Count) Type() string   { return "count" }

func (c *Count) Set(s string) error {
	number, factor := s, 1.
	if n := len(s); n > 0 {
		if i := strings.IndexByte("kMGT", s[n-1]); i >= 0 {
			number, factor = s[:n-1], math.Pow(1000, float64(i+1))
		}
	}
	if v, err := strconv.ParseUint(number, 10, 64); err == nil && factor == 1 {
		*c = Count(v)
		return nil
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v >= 0) || v*factor != math.Trunc(v*factor) || v*factor > 1<<62 {
		return fmt.Errorf("want a count such as 2000000, 500k, 2M or 1.5G")
	}
	*c = Count(v * factor)
	return nil
}
