package cli

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

// sizeFlag is a number of bytes, with a unit or without.
type sizeFlag int64

var sizeUnits = []struct {
	suffix string
	bytes  float64
}{
	{"tib", 1 << 40}, {"gib", 1 << 30}, {"mib", 1 << 20}, {"kib", 1 << 10},
	{"tb", 1e12}, {"gb", 1e9}, {"mb", 1e6}, {"kb", 1e3}, {"b", 1},
}

// parseSize reads "4GiB", "512 MiB", "1.5GB" or a plain number of bytes.
func parseSize(s string) (int64, error) {
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

// formatSize writes bytes with the largest unit of 1024.
func formatSize(n int64) string {
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

// String implements pflag.Value.
func (f *sizeFlag) String() string {
	if *f == 0 {
		return "0"
	}
	return strconv.FormatInt(int64(*f), 10)
}

// Set implements pflag.Value.
func (f *sizeFlag) Set(s string) error {
	n, err := parseSize(s)
	*f = sizeFlag(n)
	return err
}

// Type implements pflag.Value.
func (f *sizeFlag) Type() string { return "size" }

// hubsFlag says how much is pinned as hubs: a share of the nodes ("0.01"), or a size
// with a unit ("64MiB") that their columns may take, what is measured to pay ("auto"), or the training nodes ("train").
type hubsFlag struct {
	share float64
	bytes int64
	auto  bool
	train bool
}

// hubsUsage begins the help of flags of this type.
const hubsUsage = "nodes that are pinned, by influence on training nodes (hdr: by degree, 0.01 if not given): a share of them, such as 0.01, what they may take, such as 64MiB, or auto: a partition's worth (at most 1/64) where that keeps clearly more of training nodes' neighbours in memory; or train: all training nodes and no others, for --plan trainnodes"

const hubsExpected = "expected a share of the nodes from 0 to 0.5, a size with a unit, such as 64MiB, auto or train"

// String implements pflag.Value.
func (f *hubsFlag) String() string {
	switch {
	case f.auto:
		return "auto"
	case f.train:
		return "train"
	}
	if f.bytes > 0 {
		return strconv.FormatInt(f.bytes, 10) + "B"
	}
	return strconv.FormatFloat(f.share, 'g', -1, 64)
}

// Set implements pflag.Value.
func (f *hubsFlag) Set(s string) error {
	if s == "auto" || s == "train" {
		*f = hubsFlag{auto: s == "auto", train: s == "train"}
		return nil
	}
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		if !(v >= 0 && v <= 0.5) {
			return fmt.Errorf("%g of the nodes: %s", v, hubsExpected)
		}
		*f = hubsFlag{share: v}
		return nil
	}
	n, err := parseSize(s)
	if err != nil || n == 0 {
		return errors.New(hubsExpected)
	}
	*f = hubsFlag{bytes: n}
	return nil
}

// Type implements pflag.Value.
func (f *hubsFlag) Type() string { return "share|size|auto|train" }

// configFlag adds --config: a YAML file whose keys are the command's flags.
func configFlag(fs *pflag.FlagSet, path *string) {
	fs.StringVar(path, "config", "", "YAML file with flags as keys, such as \"batch-size: 500\"; flags given beside it win")
}

// applyConfig sets the flags that a --config file names and the command line
// does not. Errors name the file, the line and the key.
func applyConfig(cmd *cobra.Command, path string) error {
	if path == "" {
		return nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read --config: %w", err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return usagef("%s: %v", path, err)
	}
	if len(doc.Content) == 0 { // empty
		return nil
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return usagef("%s:%d: expected flags as keys, such as \"batch-size: 500\"", path, root.Line)
	}
	lines := map[string]int{}
	for i := 0; i < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		at := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
		f := cmd.Flags().Lookup(key.Value)
		if f == nil || key.Value == "config" {
			return usagef("%s is no flag of %s (see gstore %s --help)", at, cmd.Name(), cmd.Name())
		}
		if line := lines[key.Value]; line > 0 {
			return usagef("%s is there already, on line %d", at, line)
		}
		lines[key.Value] = key.Line
		if f.Changed {
			continue
		}
		text, err := flagText(value)
		if err == nil {
			err = cmd.Flags().Set(key.Value, text)
		}
		if err != nil {
			return usagef("%s: %v", at, err)
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
