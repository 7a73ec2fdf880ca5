package targets

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks/race"
	"github.com/gstore/gstore/gpu/host"
	"github.com/gstore/gstore/sampler/asof"
	"github.com/gstore/gstore/sampler/keyed"
	"github.com/gstore/gstore/sampler/mini"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/ingesttest"
)

// buy is a row of a table, as it was written.
type buy struct {
	customer, item int
	time           int64
}

// TestTreesAreThoseOfTheTables rebuilds the trees of 1,000 seeds from the rows as they were written: nothing is later than its seed, what is
// of the very moment is there, what is a second later is not, and of more rows than are sampled there are the latest.
func TestTreesAreThoseOfTheTables(t *testing.T) {
	race.SkipArithmetic(t)
	const customers, items, rows, seeds, fanout = 40, 7, 3000, 1000, 6
	r := keyed.New(1).Rand(0)
	joined := make([]int64, customers)
	var people, table bytes.Buffer
	people.WriteString("id,joined\n")
	for c := range joined {
		joined[c] = int64(r.Below(300))
		fmt.Fprintf(&people, "%d,%d\n", c, joined[c])
	}
	table.WriteString("customer,item,price,at\n")
	var buys []buy
	for k := range rows { // many of one time, and some before their customer is known
		b := buy{int(r.Below(customers)), int(r.Below(items)), int64(r.Below(400))}
		buys = append(buys, b)
		fmt.Fprintf(&table, "%d,%d,%d,%d\n", b.customer, b.item, k, b.time)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"customer.csv": people.String(), "buy.csv": table.String(), "item.csv": "id,weight\n0,1\n1,1\n2,5\n3,1\n4,1\n5,2\n6,1\n",
		"schema.yaml": "tables:\n  customer: {key: id, time: joined}\n  item: {key: id}\n  buy: {time: at, references: [{columns: customer, table: customer}, {columns: item, table: item}]}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	st, err := store.Open(ingesttest.Store(t, dir, ingest.Options{Partitions: 4}), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close() //nolint:errcheck // test
	dev := host.New(host.Options{Threads: 1})
	defer dev.Close() //nolint:errcheck // test
	for _, order := range Orders() {
		cfg := Config{Targets: "-", Fanouts: []int{fanout, 2}, Sampler: order, Recent: new(2)}
		if err := cfg.Normalize(); err != nil {
			t.Fatal(err)
		}
		o, err := open(t.Context(), st, dev, &cfg, use{})
		if err != nil {
			t.Fatal(err)
		}
		name := func(row uint32) string {
			for _, p := range o.mb.Partitions {
				if row >= p.Base && row-p.Base < p.Nodes {
					text, err := st.External(t.Context(), p.First+store.NodeID(row-p.Base))
					if err != nil {
						t.Fatal(err)
					}
					return text
				}
			}
			return ""
		}
		s, err := o.newSampler(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		b := &batch{}
		for range seeds {
			customer, moment := int(r.Below(customers)), int64(r.Below(420))
			id, err := st.Lookup(t.Context(), fmt.Sprintf("customer:%d", customer))
			if err != nil {
				t.Fatal(err)
			}
			row, err := o.row(id)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Sample(mini.Key{}, 0, []uint32{row}, []int64{moment}, &b.Batch); err != nil {
				t.Fatal(err)
			}
			if err := o.read(b); err != nil {
				t.Fatal(err)
			}
			var known []int64
			for _, x := range buys {
				if x.customer == customer && x.time <= moment {
					known = append(known, x.time)
				}
			}
			slices.Sort(known)
			var sampled []int64
			first := &b.Blocks[1]
			for i := 1; i < first.NumSrc; i++ { // hop 1: behind the seed
				k := 0
				if n, err := fmt.Sscanf(name(b.Input[i]), "buy:%d", &k); n != 1 || err != nil || buys[k].customer != customer {
					t.Fatalf("%s is a neighbour of customer %d", name(b.Input[i]), customer)
				}
				sampled = append(sampled, buys[k].time)
			}
			if want := min(len(known), fanout); len(sampled) != want {
				t.Fatalf("%s, seed %d at %d: %d rows, expected %d of the %d known", order, customer, moment, len(sampled), want, len(known))
			}
			slices.Sort(sampled)
			if order == asof.Latest && !slices.Equal(sampled, known[len(known)-len(sampled):]) {
				t.Fatalf("seed %d at %d: rows of times %v, expected the latest of %v", customer, moment, sampled, known)
			}
			for i, row := range b.Input {
				id := name(row)
				kind, key, _ := strings.Cut(id, ":")
				k := 0
				if _, err := fmt.Sscan(key, &k); err != nil {
					t.Fatal(err)
				}
				at := int64(asof.Always)
				switch kind {
				case "buy":
					at = buys[k].time
				case "customer":
					at = joined[k]
				}
				if b.Times[i] != moment || i > 0 && at > moment {
					t.Fatalf("%s: %s of time %d in the tree of a seed at %d", order, id, at, moment)
				}
			}
			// A customer who has not joined yet has a row that is not read.
			if read := slices.Contains(b.parts[o.types[row]].at, 0); read != (joined[customer] <= moment) {
				t.Fatalf("the seed's own row of time %d is read at %d: %v", joined[customer], moment, read)
			}
		}
		if err := o.it.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The area under the curve and the average precision are those of pairs, one by one.
func TestRankings(t *testing.T) {
	r := keyed.New(3).Rand(0)
	for range 200 {
		n := 1 + int(r.Below(12))
		p, y := make([]float32, n), make([]float32, n)
		for i := range p {
			p[i], y[i] = float32(r.Below(5)), float32(r.Below(2))
		}
		pairs, sum := 0., 0.
		for i := range p {
			for j := range p {
				if y[i] == 1 && y[j] == 0 {
					pairs++
					switch {
					case p[i] > p[j]:
						sum++
					case p[i] == p[j]:
						sum += .5
					}
				}
			}
		}
		want := .5
		if pairs > 0 {
			want = sum / pairs
		}
		if got, _ := rankings(p, y); got < want-1e-12 || got > want+1e-12 {
			t.Fatalf("%v of %v: %v, expected %v", p, y, got, want)
		}
	}
	if auc, ap := rankings([]float32{3, 2, 1}, []float32{1, 0, 1}); auc != .5 || ap < .83333 || ap > .83334 {
		t.Errorf("AUC %v and average precision %v", auc, ap)
	}
}
