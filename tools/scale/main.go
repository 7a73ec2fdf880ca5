// Command scale takes a graph of the shape of ogbn-papers100M (a stochastic block model with skewed degrees, 128 features,
// 172 classes, 1.1 % training nodes, 14.5 edges a node) through every phase of its life, at several sizes, and writes one
// table: the seconds, the processor's seconds, the bytes that reached the disk, the peak of resident memory, and the time
// that the disk alone would need for the bytes that the phase has to move. Each phase is a process of its own. The peaks
// are those of wait4, the bytes those that the kernel counted for the process, which the page cache hides nothing of as
// far as reads are direct.
//
// A second table says by how much the cost of an edge grows from one size to the next.
//
//	go build -o /tmp/gstore ./tools/gstore && go run ./tools/scale -gstore /tmp/gstore -sizes 1000,100
//
// A size of 10 is a tenth of papers100M: 11 million nodes, 160 million edges, 8.3 GB, within 2 GiB.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
)

func main() {
	var r runner
	command := flag.String("gstore", "gstore", "path of the gstore binary")
	flag.StringVar(&r.only, "only", "", "only phases whose name contains this, after those that they need")
	flag.IntVar(&r.epochs, "epochs", 3, "epochs of training")
	dir := flag.String("dir", "", "directory to work in (default: a temporary one)")
	sizes := flag.String("sizes", "1000,100", "which parts of papers100M: 1000 is a thousandth")
	flag.Parse()
	r.gstore = func(ctx context.Context, args ...string) *exec.Cmd {
		return exec.CommandContext(ctx, *command, args...)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := r.run(ctx, os.Stdout, *dir, *sizes); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		stop()
		os.Exit(1)
	}
}

// run measures all sizes in folders of dir that it removes, and prints the tables.
func (r *runner) run(ctx context.Context, out io.Writer, dir, sizes string) (err error) {
	for field := range strings.SplitSeq(sizes, ",") {
		part, err := strconv.ParseInt(field, 10, 64)
		if err != nil || part < 1 {
			return fmt.Errorf("-sizes %s: %q is no part of a graph", sizes, field)
		}
		t, err := r.size(ctx, dir, part)
		if err != nil {
			return fmt.Errorf("1/%d: %w", part, err)
		}
		r.tables = append(r.tables, t)
		if err := t.print(out); err != nil {
			return err
		}
	}
	return growth(out, r.tables)
}
