package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/options"
)

type xConfig struct {
	Prune string `json:"prune"`
	Plan  string `json:"plan"`
	Hide  *bool  `json:"hide_edges"`
	Size  int    `json:"size"`
}

func xTable() *options.Table[xConfig] {
	return &options.Table[xConfig]{Task: "test", Options: []options.Option[xConfig]{
		{Field: func(c *xConfig) any { return &c.Prune }, Level: options.Experimental, Help: "draw from parts"},
		{Field: func(c *xConfig) any { return &c.Plan }, Values: options.Words("direct", "lbs"), Unproven: []string{"lbs"}},
		{Field: func(c *xConfig) any { return &c.Hide }, Level: options.Experimental},
		{Field: func(c *xConfig) any { return &c.Size }},
	}}
}

// TestX: options for experiments are given by --x, one by one, or in a file under x or by themselves; as flags of
// their own they are refused with what works.
func TestX(t *testing.T) {
	run := func(args ...string) (xConfig, error) {
		var c xConfig
		var config string
		cmd := &cobra.Command{Use: "train", SilenceErrors: true, SilenceUsage: true, RunE: func(cmd *cobra.Command, _ []string) error {
			return ApplyConfig(cmd, config)
		}}
		cmd.SetFlagErrorFunc(FlagError)
		Bind(cmd.Flags(), xTable().Bind(&c))
		ConfigFlag(cmd.Flags(), &config)
		cmd.SetArgs(args)
		return c, cmd.Execute()
	}
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "run.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		say  string // of the refusal: what works instead
	}{
		{[]string{"--prune", "1,1"}, "say --x prune=1,1"},
		{[]string{"--prune=1,1"}, "say --x prune=1,1"},
		{[]string{"--hide-edges"}, "say --x hide-edges"},
		{[]string{"--hide-edges=false"}, "say --x hide-edges=false"},
		{[]string{"--plan", "lbs"}, "say --x plan=lbs"},
		{[]string{"--x", "size=3"}, "say --size 3"},
		{[]string{"--x", "prine=1,1"}, "did you mean prune?"},
		{[]string{"--x", "prune"}, "expected a value"},
	} {
		_, err := run(c.args...)
		if err == nil || !strings.Contains(err.Error(), c.say) || !IsUsage(err) {
			t.Errorf("%v: %v, expected %q", c.args, err, c.say)
			continue
		}
		if spelled, ok := strings.CutPrefix(c.say, "say "); ok {
			if _, err := run(strings.Fields(spelled)...); err != nil {
				t.Errorf("the hint %q does not work: %v", spelled, err)
			}
		}
	}
	for _, args := range [][]string{
		{"--x", "prune=1,1", "--x", "plan=lbs", "--x", "hide-edges"},
		{"--config", file("x: {prune: [1, 1], plan: lbs, hide-edges: true}")},
		{"--config", file("prune: 1,1\nplan: lbs\nhide-edges: true")}, // of a version that had no --x
		{"--x", "prune=1,1", "--config", file("x: {prune: \"2,2\", plan: lbs, hide-edges: true}")},
	} {
		if c, err := run(args...); err != nil || c.Prune != "1,1" || c.Plan != "lbs" || c.Hide == nil || !*c.Hide {
			t.Errorf("%v: %+v, %v", args, c, err)
		}
	}
}
