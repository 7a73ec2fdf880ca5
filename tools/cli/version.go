package cli

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/gpu/cuda"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/device"
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
			host, err := device.Open(device.Options{Name: "host", Threads: 1})
			if err != nil {
				return err
			}
			defer func() { _ = host.Close() }()
			instructions, _, _ := strings.Cut(host.Info().Detail, ",")
			_, cudaErr := cuda.Devices()
			built := !errors.Is(cudaErr, cuda.ErrNotBuilt)
			e.Event("summary", map[string]any{"version": version, "revision": revision, "modified": modified,
				"go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "instructions": instructions, "cuda": built})
			if e.JSON {
				return nil
			}
			if revision != "" {
				version += " " + revision
			}
			if modified {
				version += " (modified)"
			}
			with := "without CUDA"
			if built {
				with = "with CUDA"
			}
			_, err = fmt.Fprintf(e.Stdout, "gstore %s, %s, %s/%s, %s here, %s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, instructions, with)
			return err
		},
	}
}
