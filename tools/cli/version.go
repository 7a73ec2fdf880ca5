package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/tools/cli/command"
)

// newVersion is gstore version: what was built, of which revision, for what.
func newVersion(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show which gstore this is",
		Example: "  gstore version --json",
		Args:    command.ExactArgs(),
		RunE: func(*cobra.Command, []string) error {
			version, revision, modified := "(devel)", "", false
			if info, ok := debug.ReadBuildInfo(); ok {
				if info.Main.Version != "" {
					version = info.Main.Version
				}
				for _, s := range info.Settings {
					switch s.Key {
					case "vcs.revision":
						revision = s.Value
					case "vcs.modified":
						modified = s.Value == "true"
					}
				}
			}
			e.Event("summary", map[string]any{"version": version, "revision": revision, "modified": modified,
				"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
			if e.JSON {
				return nil
			}
			if revision != "" {
				version += " " + revision
			}
			if modified {
				version += " (modified)"
			}
			_, err := fmt.Fprintf(e.Stdout, "gstore %s, %s, %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}
