// Package cli is gstore's command tree: the commands of the packages beside it (data, training, predict, inspect, benchmarks), in
// the order of a user's first day, and exit codes. Command gstore is a thin main over it; other programs may call [Run].
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/data"
	"github.com/gstore/gstore/tools/cli/inspect"
	"github.com/gstore/gstore/tools/cli/predict"
	"github.com/gstore/gstore/tools/cli/serve"
	"github.com/gstore/gstore/tools/cli/training"
)

// Exit codes of every command (docs/reference, "Exit codes").
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitCorrupt     = 3
	ExitInterrupted = 130
)

// Further makes a command that a program has beside gstore's.
type Further func(*command.Env) *cobra.Command

// Main runs the process's command line and returns its exit code. The first
// Ctrl-C or SIGTERM cancels the command's context; a second one kills.
func Main(further ...Further) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return run(ctx, further, os.Args[1:], &command.Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
}

// Run executes one command line and returns its exit code. Errors are printed
// on stderr, and with --json also as {"event":"error"} on stdout.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, further ...Further) int {
	return run(ctx, further, args, &command.Env{Stdin: stdin, Stdout: stdout, Stderr: stderr})
}

func run(ctx context.Context, further []Further, args []string, e *command.Env) int {
	if slices.Equal(args, []string{"help", "x"}) {
		args = []string{"train", command.HelpX}
	}
	// A usage error may come before --json is read, and --help-all and --help-x are help with more in it.
	asked := ""
	for i, arg := range args {
		if e.JSON = e.JSON || arg == "--json"; arg == command.HelpAll || arg == command.HelpX {
			args, asked = slices.Clone(args), arg
			args[i] = "--help"
		}
	}
	root := newRoot(e)
	for _, f := range further {
		root.AddCommand(f(e))
	}
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		command.CompleteValues(root)
	}
	command.GroupHelp(root, &asked)
	root.SetArgs(args)
	root.SetIn(e.Stdin)
	root.SetOut(e.Stdout)
	root.SetErr(e.Stderr)
	watched, done := command.WatchMemory(ctx)
	cmd, err := root.ExecuteContextC(watched)
	err = errors.Join(command.Refused(err), done())
	code := exitCode(ctx, err)
	if err != nil {
		message := plain(err)
		fmt.Fprintf(e.Stderr, "%s %s\n", e.Failed(), message)
		if e.JSON {
			e.Event("error", map[string]any{"message": message, "exit_code": code})
		}
		if code == ExitUsage {
			hint := `Run "gstore --help" for the commands.`
			if cmd != root && cmd.Name() != "help" {
				hint = fmt.Sprintf("Run %q for its flags.", cmd.CommandPath()+" --help")
			}
			fmt.Fprintln(e.Stderr, hint)
		}
	}
	return code
}

// plain is what an error says to people: without the names of the packages that it came through, which begin it.
func plain(err error) string {
	text := err.Error()
	for _, of := range []string{"train: plan: ", "train: ", "nodes: ", "ingest: ", "bad options: ", "export options: ", "invalid partitioner option: ", "store: ", "remote: ", "not found: "} {
		text = strings.TrimPrefix(text, of)
	}
	return text
}

func exitCode(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return ExitOK
	case command.IsUsage(err):
		return ExitUsage
	case errors.Is(err, blocks.ErrCorrupt):
		return ExitCorrupt
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return ExitInterrupted
	}
	return ExitFailed
}

// keepOrder makes cobra list commands as [commands] does. Its switch is a global
// of cobra's that every tree reads, so it is set once, before the first one is built.
var keepOrder = sync.OnceFunc(func() { cobra.EnableCommandSorting = false })

func newRoot(e *command.Env) *cobra.Command {
	keepOrder()
	showVersion, version := false, newVersion(e)
	root := &cobra.Command{
		Use:               "gstore",
		Short:             "A storage engine for graphs larger than memory that trains graph neural networks",
		SilenceErrors:     true,
		Args:              cobra.ArbitraryArgs, // an unknown command is refused below, with the nearest ones
		SilenceUsage:      true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return command.ApplyEnvironment(cmd) },
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return unknown(cmd, args[0])
			case showVersion:
				return version.RunE(version, nil)
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVar(&showVersion, "version", false, "show which gstore this is")
	root.SetHelpCommand(newHelp())
	root.PersistentFlags().BoolVar(&e.JSON, "json", e.JSON, "print one JSON object per line on stdout, the last one the summary")
	root.PersistentFlags().BoolVar(&e.Quiet, "quiet", false, "print neither progress nor what was done: answers (of inspect, plan, eval, …) and errors alone")
	root.PersistentFlags().StringVar(&e.AddressDir, "cache-dir", "", "where stores at addresses on object storage are kept as far as they are used (default: gstore/stores in the user's folder for caches)")
	root.PersistentFlags().Var(&e.AddressBytes, "cache-size", "how much is kept of what was read of a store at an address (default: half of what the disk has room for)")
	root.SetFlagErrorFunc(command.FlagError)
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(commands(e)...)
	return root
}

// unknown refuses the name of a command that root does not have, with the nearest ones.
func unknown(root *cobra.Command, name string) error {
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return command.Usagef("unknown command %q: did you mean %s?", name, strings.Join(near, " or "))
	}
	return command.Usagef("unknown command %q", name)
}

// newHelp is gstore help, which refuses what is no command, where cobra's own shows the commands with exit code 0.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknown(cmd.Root(), strings.Join(args, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// commands lists every command, in the order of a user's first day.
func commands(e *command.Env) []*cobra.Command {
	return []*cobra.Command{
		training.NewDemo(e),
		data.NewIngest(e),
		command.Writes(e, data.NewAppend(e)),
		command.Writes(e, data.NewPrecompute(e)),
		command.Writes(e, training.NewTrain(e)),
		command.Writes(e, training.NewSweep(e)),
		command.Reads(e, training.NewEval(e)),
		command.Reads(e, predict.New(e)),
		command.Reads(e, serve.New(e)),
		command.Writes(e, data.NewPartition(e)),
		command.Reads(e, inspect.NewInspect(e)),
		command.Reads(e, training.NewPlan(e)),
		data.NewGenerate(e),
		command.Reads(e, data.NewExport(e)),
		command.Reads(e, data.NewWalks(e)),
		command.Reads(e, data.NewVersions(e)),
		command.Writes(e, data.NewRollback(e)),
		data.NewPrune(e),
		data.NewDrop(e),
		inspect.NewVerify(e),
		data.NewPush(e),
		data.NewPull(e),
		data.NewList(e),
		inspect.NewDevices(e),
		command.Reads(e, inspect.NewReport(e)),
		newMan(e),
		newVersion(e),
	}
}
