package store_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
)

// A program makes a store of three nodes in one partition by hand, reads a
// neighbour list and a feature row, and finds a node by its own name for it.
// Real graphs come through package ingest, which does all of this in bounded
// memory.
func Example() {
	tmp, err := os.MkdirTemp("", "gstore-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, "letters")
	if err := makeLetters(dir); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	s, err := store.Open(dir, store.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	stripe, _, err := s.ReadStripe(ctx, 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	bucket, err := stripe.Bucket(0)
	if err != nil {
		log.Fatal(err)
	}
	first := s.Manifest().Partitions[0].First // a bucket's ids count from their partitions' first nodes
	for dst, src := range bucket.All() {
		from, _ := s.External(ctx, first+store.NodeID(src))
		to, _ := s.External(ctx, first+store.NodeID(dst))
		fmt.Printf("%s → %s\n", from, to)
	}
	c, err := s.Lookup(ctx, "c")
	if err != nil {
		log.Fatal(err)
	}
	x, err := s.ReadColumn(ctx, "x", 0, nil)
	if err != nil {
		log.Fatal(err)
	}
	features, err := blocks.View[float32](x)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("x of c:", features[2*c:2*c+2])

	// Output:
	// a → b
	// a → c
	// b → c
	// x of c: [4 5]
}

func makeLetters(dir string) error {
	w, err := store.Create(dir, store.WriterOptions{})
	if err != nil {
		return err
	}
	defer w.Close()
	m := &store.Manifest{
		Schema: store.Schema{
			NodeTypes: []store.NodeType{{Name: "letter", Count: 3}},
			Relations: []store.Relation{{Name: "before", Count: 3}},
		},
		Nodes: 3, Edges: 3,
		Partitions: []store.PartitionInfo{{First: 0, Nodes: 3, Edges: 3}},
	}
	add := func(base string, h blocks.Header, rows uint64, payload ...[]byte) string {
		if err != nil {
			return ""
		}
		h.Partitions = 1
		name, bw, e := w.CreateFile(base, h)
		if err = e; err != nil {
			return ""
		}
		defer bw.Abort()
		if err = bw.Append(0, rows, payload...); err != nil {
			return ""
		}
		info, e := bw.Close()
		err = e
		m.Files = append(m.Files, store.Ref(name, info))
		return name
	}

	name, bw, err := w.CreateFile("topology", blocks.Header{Kind: blocks.Topology, Partitions: 1})
	if err != nil {
		return err
	}
	defer bw.Abort()
	enc := blocks.NewStripeEncoder(bw, []uint32{3})
	if err := bw.Begin(0); err != nil {
		return err
	}
	if err := enc.Begin(0); err != nil {
		return err
	}
	// Edges by (dst, src): a → b, a → c, b → c.
	if err := enc.Bucket(0, []uint64{blocks.EdgeKey(1, 0), blocks.EdgeKey(2, 0), blocks.EdgeKey(2, 1)}); err != nil {
		return err
	}
	edges, err := enc.End()
	if err != nil {
		return err
	}
	if err := bw.End(edges); err != nil {
		return err
	}
	info, err := bw.Close()
	if err != nil {
		return err
	}
	m.Files = append(m.Files, store.Ref(name, info))
	m.Topology = []string{name}

	x := add("x", blocks.Header{Kind: blocks.NodeColumn, Elem: blocks.Float32, Dim: 2, Name: "x"}, 3,
		blocks.Bytes([]float32{0, 1, 2, 3, 4, 5}))
	m.Columns = []store.ColumnInfo{{Name: "x", Role: store.RoleFeature, Elem: blocks.Float32, Dim: 2, Files: []string{x}}}
	ids := add("external", blocks.Header{Kind: blocks.ExternalIDs, Elem: blocks.Uint8}, 3,
		blocks.StringOffsets([]int{1, 1, 1}), []byte("abc"))
	m.IDs = store.IDInfo{Kind: store.IDsStrings, External: []string{ids}, Dictionaries: []uint64{w.Version()}}
	if err != nil {
		return err
	}
	d, err := w.NewDictionary()
	if err != nil {
		return err
	}
	for i, s := range []string{"a", "b", "c"} {
		if err := d.AddString([]byte(s), store.NodeID(i)); err != nil {
			return err
		}
	}
	if err := d.Close(); err != nil {
		return err
	}
	return w.Commit(context.Background(), m)
}
