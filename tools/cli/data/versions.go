package data

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/store/table"
	"github.com/gstore/gstore/tools/cli/command"
)

// NewVersions is the command gstore versions.
func NewVersions(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "versions STORE",
		Short: "List the versions of a store that can be read, and what was trained on them",
		Long: `Versions lists the versions of STORE that can be read, oldest first, with what made
them, the runs whose models were trained on them and the tables of embeddings that
keep them. gstore rollback makes one the newest again, gstore prune and gstore drop
remove them.`,
		Example: "  gstore versions shop.gstore",
		Args:    command.StoreArgs("STORE"),
		RunE:    func(cmd *cobra.Command, args []string) error { return listVersions(cmd.Context(), e, args[0]) },
	}
}

func listVersions(ctx context.Context, e *command.Env, dir string) error {
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	tables, err := tablesOf(ctx, dir)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	if !e.JSON {
		fmt.Fprintln(w, "version\tcommitted\tnodes\tedges\tpartitions\tbytes\truns\ttables\tnote")
	}
	count := 0
	for _, v := range h.Versions {
		if !v.Readable {
			continue
		}
		count++
		var runs []string
		for _, r := range h.Runs {
			if r.Version == v.Version {
				runs = append(runs, strconv.FormatUint(r.Number, 10))
			}
		}
		if e.JSON {
			e.Event("version", map[string]any{"version": v.Version, "created": v.Created, "nodes": v.Nodes, "edges": v.Edges, "partitions": v.Partitions, "bytes": v.Bytes,
				"runs": append([]string{}, runs...), "tables": append([]string{}, tables[v.Version]...), "note": v.Note})
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", v.Version, v.Created.Format(time.RFC3339), v.Nodes, v.Edges, v.Partitions, command.FormatSize(v.Bytes),
			listed(runs), listed(tables[v.Version]), v.Note)
	}
	e.Event("summary", map[string]any{"versions": count, "of": len(h.Versions)})
	return w.Flush()
}

// listed lists words; of more than a few the last.
func listed(words []string) string {
	const most = 4
	if len(words) == 0 {
		return "-"
	}
	if left := len(words) - most; left > 0 {
		return fmt.Sprintf("%d more, %s", left, strings.Join(words[left:], ", "))
	}
	return strings.Join(words, ", ")
}

// tablesOf lists the tables of embeddings that were trained on each version.
func tablesOf(ctx context.Context, dir string) (of map[uint64][]string, err error) {
	tables, err := table.Describe(ctx, dir, store.Options{})
	of = map[uint64][]string{}
	for _, t := range tables {
		of[t.Version] = append(of[t.Version], t.Name)
	}
	return of, err
}

// write opens a store's writer for do.
func write(dir string, do func(*store.Writer) error) error {
	w, err := store.OpenWriter(dir, store.WriterOptions{})
	if err != nil {
		return err
	}
	return errors.Join(do(w), w.Close())
}

// NewRollback is the command gstore rollback.
func NewRollback(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "rollback STORE [VERSION]",
		Short: "Make an earlier version of a store its newest again",
		Long: `Rollback makes what STORE was at VERSION, by default the one before the newest, its
next version. Nothing is copied: the new version has the same files. The versions
after VERSION stay until gstore prune or gstore drop removes them, so that a rollback
can itself be rolled back. gstore versions lists what can be read.`,
		Example: "  gstore rollback shop.gstore\n  gstore rollback shop.gstore 3",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return command.Usagef("expected STORE [VERSION], got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			to := uint64(0)
			if len(args) == 2 {
				var err error
				if to, err = strconv.ParseUint(args[1], 10, 64); err != nil || to == 0 {
					return command.Usagef("version %q: expected a number that gstore versions %s lists", args[1], args[0])
				}
			}
			return rollBack(cmd.Context(), e, args[0], to)
		},
	}
}

// rollBack goes back to a version, 0 = the one before the newest.
func rollBack(ctx context.Context, e *command.Env, dir string, to uint64) error {
	var from uint64
	var m *store.Manifest
	err := write(dir, func(w *store.Writer) (err error) {
		if w.Base() == nil {
			return fmt.Errorf("%s: %w", dir, store.ErrNoVersion)
		}
		if from = w.Base().Version; to == 0 {
			if to, err = before(ctx, dir, from); err != nil {
				return err
			}
		}
		m, err = w.Rollback(ctx, to)
		return err
	})
	if errors.Is(err, store.ErrInvalid) {
		return command.Usage(err)
	}
	if err != nil {
		return err
	}
	e.Event("summary", map[string]any{"store": dir, "from": from, "to": to, "version": m.Version, "nodes": m.Nodes, "edges": m.Edges})
	if !e.JSON {
		fmt.Fprintf(e.Told(), "%s: version %d is what version %d was: %d nodes, %d edges; version %d stays (gstore drop %s --version %d removes it)\n", dir, m.Version, to, m.Nodes, m.Edges, from, dir, from)
	}
	return nil
}

// before is the newest readable version before one.
func before(ctx context.Context, dir string, version uint64) (uint64, error) {
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil {
		return 0, err
	}
	for _, v := range slices.Backward(h.Versions) {
		if v.Readable && v.Version < version {
			return v.Version, nil
		}
	}
	return 0, fmt.Errorf("%w: %s has no version before %d: append keeps as many as --keep-versions says", store.ErrNotFound, dir, version)
}

// NewPrune is the command gstore prune.
func NewPrune(e *command.Env) *cobra.Command {
	keep := 1
	cmd := &cobra.Command{
		Use:   "prune STORE|ADDRESS",
		Short: "Remove all but the newest versions of a store, or its snapshots on object storage",
		Long: `Prune removes all but the newest --keep versions of STORE, with the files that no
other version has. A version on which a table of embeddings was trained stays: gstore
drop --table removes the table first. Of an ADDRESS on object storage it removes all but
the newest --keep snapshots, what no other one needs, and what interrupted pushes left a
day ago and more.`,
		Example: "  gstore prune shop.gstore --keep 2\n  gstore prune s3://graphs/shop --keep 10",
		Args:    command.StoreOrAddress,
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep < 1 {
				return command.Usagef("--keep %d: expected 1 or more", keep)
			}
			if remote.IsAddress(args[0]) {
				return pruneAddress(cmd.Context(), e, args[0], keep)
			}
			d, err := dropVersions(cmd.Context(), args[0], func(kept []uint64) []uint64 { return kept[:max(len(kept)-keep, 0)] })
			if err != nil {
				return err
			}
			return tellDropped(cmd.Context(), e, args[0], d, nil)
		},
	}
	cmd.Flags().IntVar(&keep, "keep", 1, "how many versions, or snapshots, to keep, the newest included")
	return cmd
}

func dropVersions(ctx context.Context, dir string, unwanted func(kept []uint64) []uint64) (d store.Dropped, err error) {
	err = write(dir, func(w *store.Writer) (err error) {
		d, err = w.DropVersions(ctx, unwanted)
		return err
	})
	return d, err
}

// tellDropped says what was removed: versions and what else.
func tellDropped(ctx context.Context, e *command.Env, dir string, d store.Dropped, also []string) error {
	var words []string
	for _, v := range d.Versions {
		words = append(words, fmt.Sprintf("version %d", v))
	}
	words = append(words, also...)
	e.Event("summary", map[string]any{"store": dir, "versions": append([]uint64{}, d.Versions...), "kept": append([]uint64{}, d.Kept...), "also": append([]string{}, also...), "bytes": d.Bytes})
	if e.JSON {
		return nil
	}
	if len(words) == 0 {
		words = []string{"nothing"}
	}
	fmt.Fprintf(e.Told(), "%s: removed %s", dir, strings.Join(words, ", "))
	if len(d.Versions) > 0 {
		fmt.Fprintf(e.Told(), ", %s of files", command.FormatSize(d.Bytes))
	}
	fmt.Fprintln(e.Told())
	if len(d.Kept) == 0 {
		return nil
	}
	tables, err := tablesOf(ctx, dir)
	if err != nil {
		return err
	}
	for _, v := range d.Kept {
		for _, name := range tables[v] {
			fmt.Fprintf(e.Told(), "version %d stays: table %s was trained on it (gstore drop %s --table %s)\n", v, name, dir, name)
		}
	}
	return nil
}

// NewDrop is the command gstore drop.
func NewDrop(e *command.Env) *cobra.Command {
	var runs, versions []uint
	var tables []string
	cmd := &cobra.Command{
		Use:   "drop STORE",
		Short: "Remove runs, tables of embeddings or versions of a store",
		Long: `Drop removes what its flags name from STORE: runs with their models and measurements,
tables of embeddings with their checkpoints, versions with the files that no other version has.
The newest version stays, and so does one on which a table was trained that is not
dropped too. Each is removed whole or not at all, whatever ends the command.`,
		Example: "  gstore drop shop.gstore --run 3 --run 4\n  gstore drop wikidata.gstore --table embeddings --version 1",
		Args:    command.StoreArgs("STORE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(runs)+len(tables)+len(versions) == 0 {
				return command.Usagef("expected --run, --table or --version: gstore versions %s lists them", args[0])
			}
			return drop(cmd.Context(), e, args[0], runs, tables, versions)
		},
	}
	f := cmd.Flags()
	f.UintSliceVar(&runs, "run", nil, "number of a run")
	f.StringSliceVar(&tables, "table", nil, "name of a table of embeddings")
	f.UintSliceVar(&versions, "version", nil, "number of a version")
	return cmd
}

func drop(ctx context.Context, e *command.Env, dir string, runs []uint, tables []string, versions []uint) (err error) {
	var also []string
	var d store.Dropped
	if err := checkVersions(ctx, dir, versions); err != nil { // before anything is removed
		return err
	}
	for _, n := range runs {
		if err := store.DropRun(ctx, dir, uint64(n), store.Options{}); err != nil {
			return err
		}
		also = append(also, fmt.Sprintf("run %d", n))
	}
	for _, name := range tables {
		if err := table.Drop(ctx, dir, name, store.Options{}); err != nil {
			return err
		}
		also = append(also, "table "+name)
	}
	if len(versions) > 0 {
		d, err = dropVersions(ctx, dir, func([]uint64) (unwanted []uint64) {
			for _, v := range versions {
				unwanted = append(unwanted, uint64(v))
			}
			return unwanted
		})
		if err != nil {
			return err
		}
	}
	return tellDropped(ctx, e, dir, d, also)
}

// checkVersions refuses to drop the newest version, and those that there are not.
func checkVersions(ctx context.Context, dir string, versions []uint) error {
	if len(versions) == 0 {
		return nil
	}
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	for _, n := range versions {
		v := slices.IndexFunc(h.Versions, func(v store.VersionInfo) bool { return v.Version == uint64(n) && v.Readable })
		switch {
		case v < 0:
			return fmt.Errorf("%w: version %d of %s: gstore versions %s lists those that can be read", store.ErrNotFound, n, dir, dir)
		case v == len(h.Versions)-1:
			return command.Usagef("version %d is the newest of %s: gstore rollback goes back to an earlier one", n, dir)
		}
	}
	return nil
}
