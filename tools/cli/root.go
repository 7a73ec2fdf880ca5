// Package cli is gstore's command tree: one file per command, each an options
// struct, its flags and a run function. Command gstore is a thin main over it;
// other programs may call [Run].
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/blocks"
)

// Exit codes of every command (docs: README, "Exit codes").
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = 2
	ExitCorrupt     = 3
	ExitInterrupted = 130
)

// usageError marks errors of the caller's making: wrong flags or arguments.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// usagef makes a usage error: exit code 2.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// env is what a command may touch of the world.
type env struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	json   bool // --json: one object a line on stdout, the last one {"event":"summary", …}
	quiet  bool // --quiet: no progress even on a terminal
}

// Main runs the process's command line and returns its exit code. The first
// Ctrl-C or SIGTERM cancels the command's context; a second one kills.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return Run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Run executes one command line and returns its exit code. Errors are printed
// on stderr, and with --json also as {"event":"error"} on stdout.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{stdin: stdin, stdout: stdout, stderr: stderr}
	root := newRoot(e)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if err != nil {
		fmt.Fprintf(stderr, "gstore: %v\n", err)
		if e.json {
			e.event("error", map[string]any{"message": err.Error(), "exit_code": code})
		}
		if code == ExitUsage {
			fmt.Fprintln(stderr, `Run "gstore --help" for the commands, "gstore COMMAND --help" for its flags.`)
		}
	}
	return code
}

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &usage):
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

func newRoot(e *env) *cobra.Command {
	keepOrder()
	root := &cobra.Command{
		Use:           "gstore",
		Short:         "A storage engine for graphs larger than memory that trains graph neural networks",
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q", args[0])
			}
			return cmd.Help()
		},
	}
	root.PersistentFlags().BoolVar(&e.json, "json", false, "print one JSON object per line on stdout, the last one the summary")
	root.PersistentFlags().BoolVar(&e.quiet, "quiet", false, "print no progress")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(commands(e)...)
	return root
}

// commands lists every command, in the order of a user's first day.
func commands(e *env) []*cobra.Command {
	return []*cobra.Command{
		newDemo(e),
		newIngest(e),
		newAppend(e),
		newPrecompute(e),
		newTrain(e),
		newEval(e),
		newPartition(e),
		newInspect(e),
		newPlan(e),
		newGenerate(e),
		newExport(e),
		newVerify(e),
		newReport(e),
		newBench(e),
	}
}

// exactArgs is cobra.ExactArgs as a usage error that names the arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return usagef("expected %d argument(s) %v, got %d", len(names), names, len(args))
		}
		return nil
	}
}
