package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gstore/gstore/testdata/typed"
)

// ingests are the flags by which a graph becomes a store.
var ingests = map[string]string{
	"sbm":      "--partitions 8",
	"weighted": "--partitions 4 --columns src,dst,weight",
	"typed":    "--partitions 4",
	"kg":       "--partitions 8",
	"similar":  "--partitions 4 --split-random 90/5/5:1",
	"moments":  "--partitions 3",
	"cora":     "--partitions 4 --undirected",
	"debhet":   "--partitions 4",
	"wn18rr":   "--partitions 4",
	"gitedits": "--partitions 4",
}

// store makes the store of the first of some graphs that is present, by the old build, and returns its folder and the graph's name.
func (o *options) store(ctx context.Context, graphs string) (dir, name string, err error) {
	names := strings.Split(graphs, ",")
	for _, name = range names {
		dir = filepath.Join(o.dir, name+".gstore")
		if _, err := os.Stat(dir); err == nil {
			return dir, name, nil
		}
		input := filepath.Join(o.sets, name)
		if _, err := os.Stat(input); err == nil {
			return dir, name, o.ingest(ctx, input, dir, name)
		}
	}
	if input, err := o.generate(ctx, name); err != nil {
		return "", "", err
	} else if err := o.ingest(ctx, input, dir, name); err != nil {
		return "", "", err
	}
	return dir, name, nil
}

func (o *options) ingest(ctx context.Context, input, dir, name string) error {
	args := append([]string{"ingest", input, dir, "--quiet", "--seed", "1"}, strings.Fields(ingests[name])...)
	if nodes := filepath.Join(o.dir, name+"-nodes.csv"); fileExists(nodes) {
		args = append(args, "--nodes", nodes)
	}
	return gstore(ctx, o.old, args...)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// generate makes a graph and returns its file or folder.
func (o *options) generate(ctx context.Context, name string) (string, error) {
	path := filepath.Join(o.dir, name)
	switch name {
	case "sbm":
		return path, gstore(ctx, o.old, "generate", "sbm", path, "--nodes", "3000", "--edges", "40000", "--classes", "6", "--features", "16", "--quiet")
	case "kg":
		return path, gstore(ctx, o.old, "generate", "kg", path, "--nodes", "2000", "--edges", "8000", "--relations", "8",
			"--valid-triples", "100", "--test-triples", "100", "--quiet")
	case "weighted":
		return path + ".csv", errors.Join(writeEdges(path+".csv", "src,dst,weight", ",%.3f"), writeNodes(path+"-nodes.csv", true))
	case "similar":
		return path + ".csv", errors.Join(writeEdges(path+".csv", "src,dst", ""), writeNodes(path+"-nodes.csv", false))
	case "moments":
		return path + ".csv", writeMoments(path + ".csv")
	case "typed":
		return filepath.Join(o.dir, "graph"), unpack(o.dir, typed.Version1)
	}
	return "", fmt.Errorf("graph %s: %w", name, os.ErrNotExist)
}

// nodes of graphs that are written here.
const nodes = 600

// writeEdges writes edges that mostly stay within a class, of which node i has i % 4; weight is the format of a random number behind them.
func writeEdges(path, header, weight string) error {
	var b strings.Builder
	b.WriteString(header + "\n")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 8 * nodes {
		src, dst := rng.IntN(nodes), rng.IntN(nodes)
		if rng.IntN(4) > 0 {
			dst = dst/4*4 + src%4
		}
		fmt.Fprintf(&b, "%d,%d", src, dst)
		if weight != "" {
			fmt.Fprintf(&b, weight, .1+rng.Float64())
		}
		b.WriteByte('\n')
	}
	return os.WriteFile(path, []byte(b.String()), 0o666)
}

// writeNodes writes each node's features and, if asked for, its class and split.
func writeNodes(path string, labels bool) error {
	var b strings.Builder
	b.WriteString("id,x1,x2,x3,x4")
	if labels {
		b.WriteString(",label,split")
	}
	b.WriteByte('\n')
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range nodes {
		fmt.Fprint(&b, i)
		for k := range 4 {
			x := rng.NormFloat64()
			if k == i%4 {
				x++
			}
			fmt.Fprintf(&b, ",%.4f", x)
		}
		if labels {
			fmt.Fprintf(&b, ",%d,%s", i%4, []string{"train", "train", "valid", "test"}[rng.IntN(4)])
		}
		b.WriteByte('\n')
	}
	return os.WriteFile(path, []byte(b.String()), 0o666)
}

// writeMoments writes who bought what when: users come back to what they bought.
func writeMoments(path string) error {
	var b strings.Builder
	b.WriteString("src,dst,timestamp\n")
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range 4000 {
		user := rng.IntN(60)
		fmt.Fprintf(&b, "u%d,i%d,%d\n", user, (user*7+rng.IntN(4)*11)%50, i/2)
	}
	return os.WriteFile(path, []byte(b.String()), 0o666)
}

// unpack writes the files of a compressed tar below dir.
func unpack(dir string, archive []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if path := filepath.Join(dir, h.Name); h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o777)
		} else {
			var b []byte
			if b, err = io.ReadAll(t); err == nil {
				err = os.WriteFile(path, b, 0o666)
			}
		}
		if err != nil {
			return err
		}
	}
}

// gstore runs a build to its end.
func gstore(ctx context.Context, build string, args ...string) error {
	if out, err := exec.CommandContext(ctx, build, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", build, strings.Join(args, " "), err, out)
	}
	return nil
}
