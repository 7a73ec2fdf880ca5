package data

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/store/remote"
	"github.com/gstore/gstore/tools/cli/command"
)

const addressHelp = `ADDRESS is s3://BUCKET/PREFIX, of Amazon's S3 or any server that speaks its protocol
(MinIO, Ceph, R2: ?endpoint=https://HOST, or AWS_ENDPOINT_URL), or file:///FOLDER. Names
and passwords come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the file
~/.aws/credentials, or the machine's role; gstore stores none of them.`

// NewPush is the command gstore push.
func NewPush(e *command.Env) *cobra.Command {
	var o remote.PushOptions
	cmd := &cobra.Command{
		Use:   "push STORE ADDRESS",
		Short: "Copy a store to object storage, what is new of it, as its next snapshot there",
		Long: `Push copies all that STORE holds to ADDRESS: the versions that can be read, tables of
embeddings, runs with their models. What the newest snapshot there has is not sent
again. The snapshot appears in one step when all of it is there, and the older ones
stay until gstore prune ADDRESS removes them. One that is interrupted leaves nothing to
be seen; push again within half a day goes on with it. Where the newest snapshot has
versions or runs that STORE has not, push refuses.

` + addressHelp,
		Example: "  gstore push shop.gstore s3://graphs/shop\n  gstore push shop.gstore 's3://graphs/shop?endpoint=http://localhost:9000' --note 'week 48'\n  gstore push shop.gstore file:///mnt/backup/shop",
		Args:    command.StoreArgs("STORE", "ADDRESS"),
		RunE:    func(cmd *cobra.Command, args []string) error { return push(cmd.Context(), e, args[0], args[1], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Note, "note", "", "a line that gstore ls shows")
	f.BoolVar(&o.Force, "force", false, "push even if the newest snapshot has versions or runs that STORE has not; it stays to be pulled by its number")
	return cmd
}

func push(ctx context.Context, e *command.Env, dir, address string, o remote.PushOptions) error {
	return move(e, dir, address, "bytes up", func(b remote.Bucket, tell func(done, total int64)) (remote.Moved, error) {
		o.Progress = tell
		return remote.Push(ctx, b, dir, o)
	}, func(b remote.Bucket, m remote.Moved, seconds float64) string {
		s := m.Snapshot
		if !m.Fresh {
			return fmt.Sprintf("%s: snapshot %d is what %s holds: nothing to push", b, s.Number, dir)
		}
		return fmt.Sprintf("%s: snapshot %d holds %s, version %d, %s; %s of it moved in %.1f s", b, s.Number, dir, s.Version, command.FormatSize(s.Bytes()), command.FormatSize(m.Bytes), seconds)
	})
}

// move pushes or pulls, and says what that did.
func move(e *command.Env, dir, address, what string, do func(b remote.Bucket, tell func(done, total int64)) (remote.Moved, error), said func(b remote.Bucket, m remote.Moved, seconds float64) string) error {
	b, err := command.OpenAddress(address)
	if err != nil {
		return err
	}
	begin := time.Now()
	tell, end := e.Moving(what)
	m, err := do(b, tell)
	end()
	if err != nil {
		return err
	}
	s, seconds := m.Snapshot, time.Since(begin).Seconds()
	e.Event("summary", map[string]any{"store": dir, "address": b.String(), "snapshot": s.Number, "new": m.Fresh, "version": s.Version, "files": len(s.Files), "bytes": s.Bytes(),
		"files_moved": m.Files, "bytes_moved": m.Bytes, "seconds": seconds})
	if !e.JSON {
		fmt.Fprintln(e.Told(), said(b, m, seconds))
	}
	return nil
}

// NewPull is the command gstore pull.
func NewPull(e *command.Env) *cobra.Command {
	var o remote.PullOptions
	cmd := &cobra.Command{
		Use:   "pull ADDRESS STORE",
		Short: "Make a store of a snapshot on object storage, or bring one up to date",
		Long: `Pull makes STORE what a snapshot at ADDRESS holds, by default the newest. Every file's
checksum is checked before STORE appears or changes, which it does in one step; programs
that read it go on with what they opened. What STORE has already is not read again. One
that is interrupted leaves STORE as it was, and pull again goes on. Where STORE has
versions or runs that the snapshot has not, or an unfinished run, pull refuses.

With --lazy a store begins at once: columns, edges and ids stay at ADDRESS. Every command
reads from there what it needs, and keeps it in STORE/cache, at most --cache-size of it.
Its checksums are checked as it arrives. What is learned, and versions that are appended,
lie in STORE; push takes them. Commands that are given ADDRESS itself do all this by
themselves, in a folder below --cache-dir.

` + addressHelp,
		Example: "  gstore pull s3://graphs/shop shop.gstore\n  gstore pull s3://graphs/shop shop.gstore --lazy --cache-size 50GiB\n  gstore pull s3://graphs/shop earlier.gstore --snapshot 3",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("cache-size") && !o.Lazy { // the environment, read later, may say it for other commands
				return command.Usagef("--cache-size says nothing without --lazy")
			}
			return command.ExactArgs("ADDRESS", "STORE")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.CacheBytes = int64(e.AddressBytes)
			return pull(cmd.Context(), e, args[0], args[1], o)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Snapshot, "snapshot", 0, "number of a snapshot, as gstore ls lists them (0 = the newest)")
	f.BoolVar(&o.Lazy, "lazy", false, "leave features, edges and the like at ADDRESS, and read of them what is needed when it is needed")
	f.BoolVar(&o.Force, "force", false, "pull even if STORE has versions or runs that the snapshot has not: they are lost")
	return cmd
}

func pull(ctx context.Context, e *command.Env, address, dir string, o remote.PullOptions) error {
	return move(e, dir, address, "bytes down", func(b remote.Bucket, tell func(done, total int64)) (remote.Moved, error) {
		o.Progress = tell
		return remote.Pull(ctx, b, dir, o)
	}, func(b remote.Bucket, m remote.Moved, seconds float64) string {
		s := m.Snapshot
		if !m.Fresh {
			return fmt.Sprintf("%s is what snapshot %d of %s holds: nothing to pull", dir, s.Number, b)
		}
		rest := ""
		if o.Lazy {
			rest = "; data that are not there yet are read when they are needed"
		}
		return fmt.Sprintf("%s: version %d, %d nodes, %d edges, %s, of snapshot %d; %s of it moved in %.1f s%s", dir, s.Version, s.Nodes, s.Edges, command.FormatSize(s.Bytes()), s.Number,
			command.FormatSize(m.Bytes), seconds, rest)
	})
}

// NewList is the command gstore ls.
func NewList(e *command.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "ls ADDRESS",
		Short:   "List the snapshots of a store on object storage",
		Long:    "Ls lists the snapshots at ADDRESS that gstore push made, oldest first.\n\n" + addressHelp,
		Example: "  gstore ls s3://graphs/shop",
		Args:    command.ExactArgs("ADDRESS"),
		RunE:    func(cmd *cobra.Command, args []string) error { return list(cmd.Context(), e, args[0]) },
	}
}

func list(ctx context.Context, e *command.Env, address string) error {
	b, err := command.OpenAddress(address)
	if err != nil {
		return err
	}
	numbers, err := remote.Numbers(ctx, b)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(e.Stdout, 0, 0, 2, ' ', 0)
	if !e.JSON {
		fmt.Fprintln(w, "snapshot\tpushed\tversion\tnodes\tedges\truns\tbytes\tnote")
	}
	count := 0
	for _, n := range numbers {
		s, err := remote.Read(ctx, b, n)
		if errors.Is(err, remote.ErrNotFound) { // pruned meanwhile
			continue
		}
		if err != nil {
			return errors.Join(w.Flush(), err)
		}
		if count++; e.JSON {
			e.Event("snapshot", map[string]any{"snapshot": s.Number, "created": s.Created, "version": s.Version, "nodes": s.Nodes, "edges": s.Edges, "runs": len(s.Runs), "files": len(s.Files),
				"bytes": s.Bytes(), "note": s.Note})
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", s.Number, s.Created.Format(time.RFC3339), s.Version, s.Nodes, s.Edges, len(s.Runs), command.FormatSize(s.Bytes()), s.Note)
	}
	e.Event("summary", map[string]any{"address": b.String(), "snapshots": count})
	return w.Flush()
}

// pruneAddress removes old snapshots, and what interrupted pushes left.
func pruneAddress(ctx context.Context, e *command.Env, address string, keep int) error {
	b, err := command.OpenAddress(address)
	if err != nil {
		return err
	}
	p, err := remote.Prune(ctx, b, keep)
	if err != nil {
		return err
	}
	e.Event("summary", map[string]any{"address": b.String(), "snapshots": append([]uint64{}, p.Snapshots...), "objects": p.Objects, "bytes": p.Bytes})
	if !e.JSON {
		fmt.Fprintf(e.Told(), "%s: removed %d snapshot(s), and %d object(s) of %s that no other needs (those of the last day stay: a push may be under way)\n", b, len(p.Snapshots), p.Objects, command.FormatSize(p.Bytes))
	}
	return nil
}
