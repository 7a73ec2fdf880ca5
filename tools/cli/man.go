package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/gstore/gstore/tools/cli/command"
)

// newMan is gstore man, which writes manual pages.
func newMan(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "man FOLDER",
		Short: "Write manual pages, gstore(1) and one of each command",
		Long: `Man writes manual pages to FOLDER, which is made if it is not there: gstore.1, and a
page gstore-COMMAND.1 of each command.`,
		Example: "  gstore man ~/.local/share/man/man1\n  man gstore-train",
		Args:    command.ExactArgs("FOLDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // a date would make pages differ from build to build
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "GSTORE", Section: "1", Source: "gstore", Manual: "gstore"}, args[0]); err != nil {
				return err
			}
			e.Event("summary", map[string]any{"folder": args[0]})
			if !e.JSON {
				fmt.Fprintf(e.Told(), "manual pages are in %s\n", args[0])
			}
			return nil
		},
	}
}
