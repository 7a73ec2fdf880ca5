// Package command holds what every command of gstore has: the part of the world that it may touch ([Env]), flags of sizes
// (Size), configuration files, usage errors, events and progress. The commands themselves lie in the packages beside it.
package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/gpu/options"
	"github.com/gstore/gstore/store/remote"
)

// Env is what a command may touch of the world.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	JSON   bool // --json: one object a line on stdout, the last one {"event":"summary", …}
	Quiet  bool // --quiet: no progress even on a terminal

	AddressDir   string  // --cache-dir: where stores at addresses are followed
	AddressBytes Size    // --cache-size: how much of one is kept
	waits        *[]byte // if not nil, where the summary waits for what comes before it
}

// usageError marks errors of the caller's making: wrong flags or arguments.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

// Usagef makes a usage error: exit code 2.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Usage makes err a usage error.
func Usage(err error) error { return usageError{err} }

// Refused makes an error of options that do not go together a usage error that names them as on a command line; others it returns
// as they are.
func Refused(err error) error {
	var r *options.Refusal
	if !errors.As(err, &r) {
		return err
	}
	return usageError{spelled{r.Text, err}}
}

// spelled is an error with another text.
type spelled struct {
	text string
	error
}

func (s spelled) Error() string { return s.text }
func (s spelled) Unwrap() error { return s.error }

// IsUsage reports whether an error is the caller's mistake.
func IsUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

// ExactArgs is cobra.ExactArgs as a usage error that names the arguments.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			return Usagef("expected %d argument(s) %v, got %d%s", len(names), names, len(args), loneValue(cmd, args))
		}
		return nil
	}
}

// loneValue says of a flag which may stand without a value, and does, that its value follows an equals sign.
func loneValue(cmd *cobra.Command, args []string) (hint string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.NoOptDefVal != "" && f.NoOptDefVal != "true" && f.Value.String() == f.NoOptDefVal && len(args) > 0 {
			hint = fmt.Sprintf("; a value of --%s follows an equals sign: --%s=%s", f.Name, f.Name, args[len(args)-1])
		}
	})
	return hint
}

// SomeArgs takes one argument or more, and names them.
func SomeArgs(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("expected arguments [%s], got none", name)
		}
		return nil
	}
}

// StoreArgs is [ExactArgs] where the first argument is a store that exists: files and folders of data are told apart from it.
func StoreArgs(names ...string) cobra.PositionalArgs {
	exact := ExactArgs(names...)
	return func(cmd *cobra.Command, args []string) error {
		if err := exact(cmd, args); err != nil {
			return err
		}
		return checkStore(cmd, args[0])
	}
}

// StoreFirst is [StoreArgs] of a command that takes any number of arguments behind the store.
func StoreFirst(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef("expected arguments %v, got none", names)
		}
		return checkStore(cmd, args[0])
	}
}

// checkStore refuses what is there and is no store.
func checkStore(cmd *cobra.Command, path string) error {
	if remote.IsAddress(path) {
		return onDisk(cmd, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // opening it says what is wrong
	}
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + ".gstore"
	if !info.IsDir() {
		return Usagef("%s is a file, not a store: make one of it first, with gstore ingest %s %s", path, path, name)
	}
	if _, err := os.Stat(filepath.Join(path, "meta")); errors.Is(err, os.ErrNotExist) {
		if found, _ := filepath.Glob(filepath.Join(path, "*.*")); len(found) > 0 {
			return Usagef("%s is a folder of files (%s, …), not a store: make one of it first, with gstore ingest %s %s", path, filepath.Base(found[0]), path, name)
		}
	}
	return nil
}

// LimitThreads bounds the processors that the process uses, until the returned
// function is called; 0 means all.
func LimitThreads(n int) func() {
	if n <= 0 {
		return func() {}
	}
	old := runtime.GOMAXPROCS(n)
	return func() { runtime.GOMAXPROCS(old) }
}

// CacheDir is where measurements of devices are kept; "" where the system names no place.
func CacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "gstore")
}
