package command

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// environmentPrefix begins the names of variables of the environment that stand for flags: GSTORE_BATCH_SIZE for --batch-size.
const environmentPrefix = "GSTORE_"

// variableOf is the variable of the environment that stands for a flag.
func variableOf(f *pflag.Flag) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
}

// ApplyEnvironment sets the flags of a command that its command line does not name to what the environment's variables say. A variable
// goes before a file of --config. One that names no flag of this command may be another's.
func ApplyEnvironment(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		text, ok := os.LookupEnv(variableOf(f))
		if err != nil || !ok || f.Changed || f.Name == "help" {
			return
		}
		if serr := cmd.Flags().Set(f.Name, text); serr != nil {
			err = Usagef("%s=%s: %v", variableOf(f), text, serr)
		}
	})
	return err
}
