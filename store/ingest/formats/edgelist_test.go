package formats

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// show lists a source's edges as "src dst relation column column …".
func show(t *testing.T, s ingest.Source) (edges []string, err error) {
	t.Helper()
	id := func(ids *ingest.IDs, i int) string {
		if ids.Ends != nil {
			return string(ids.At(i))
		}
		return fmt.Sprint(ids.Ints[i])
	}
	err = s.Edges(t.Context(), ingest.Env{Threads: 1, MemoryBytes: 1 << 20}, func(_ int, b *ingest.EdgeBatch) error {
		for i := range b.Len() {
			e := id(&b.Src, i) + " " + id(&b.Dst, i)
			if b.RelationNames.Len() > 0 {
				e += " " + string(b.RelationNames.At(i))
			} else if b.Relations != nil {
				e += " " + fmt.Sprint(b.Relations[i])
			}
			for c, spec := range s.Describe().EdgeColumns {
				row := b.Columns[c][i*spec.RowBytes() : (i+1)*spec.RowBytes()]
				switch spec.Elem {
				case blocks.Float32:
					v, err := blocks.View[float32](bytes.Clone(row))
					e += fmt.Sprint(" ", v, err)
				case blocks.Float64:
					v, err := blocks.View[float64](bytes.Clone(row))
					e += fmt.Sprint(" ", v, err)
				case blocks.Int32:
					v, err := blocks.View[int32](bytes.Clone(row))
					e += fmt.Sprint(" ", v, err)
				case blocks.Int64:
					v, err := blocks.View[int64](bytes.Clone(row))
					e += fmt.Sprint(" ", v, err)
				}
			}
			edges = append(edges, strings.ReplaceAll(e, " <nil>", ""))
		}
		return nil
	})
	return edges, err
}

// Lines of an edge list become the edges they name: a header is known by its place, not by
// its text; features keep order and type.
func TestEdgeListLines(t *testing.T) {
	yes := true
	tests := []struct {
		name, text string
		o          table.Options
		ids        store.IDKind
		want       []string
	}{
		{name: "header", text: "# x\nfrom\tto\n1\t2\n", want: []string{"1 2"}},
		{name: "header again as an edge", text: "a,b\nc,d\na,b\n", o: table.Options{Header: &yes}, ids: store.IDsStrings, want: []string{"c d", "a b"}},
		{name: "header of integers, again as an edge", text: "0 1\n1 2\n0 1\n", o: table.Options{Header: &yes}, want: []string{"1 2", "0 1"}},
		{name: "header that names columns", text: "# x\nw,target,note,source,e.0,e.1,n\n.5,2,hi,1,3,4,5\n", want: []string{"1 2 [0.5] [3 4] [5]"}},
		{name: "header that names columns of strings", text: "src\tdst\trel\na b\tc\tlikes\n", ids: store.IDsStrings, want: []string{"a b c likes"}},
		{name: "names that a graph may have", text: "head,tail\ntail,head\n", o: table.Options{Header: new(bool)}, ids: store.IDsStrings, want: []string{"head tail", "tail head"}},
		{name: "a mark before the header", text: "\xef\xbb\xbfsrc,dst\n1,2\n", want: []string{"1 2"}},
		{name: "lines that end with a return alone", text: "from,to\r1,2\r3,4", want: []string{"1 2", "3 4"}},
		{name: "lines that end with both", text: "from,to\r\n1,2\r\n", want: []string{"1 2"}},
		{name: "quotes", text: "\"Smith, J\",Bob\n\"Bob\",\"a \"\"b\"\"\nc\"\n", ids: store.IDsStrings, want: []string{"Smith, J Bob", "Bob a \"b\"\nc"}},
		{name: "quoted header of tabs", text: "\"src\"\t\"dst\"\n\"a\tb\"\t\"c\"\n", ids: store.IDsStrings, want: []string{"a\tb c"}},
		{name: "quotes that are text", text: "\"x\"@en\ty\n", ids: store.IDsStrings, want: []string{"\"x\"@en y"}},
		{name: "every name that Parquet has", text: "id,Head,REL,tail,ts,w\n7,1,r,2,9,.5\n", want: []string{"1 2 r [7] [9] [0.5]"}},
		{name: "row numbers of pandas, whole numbers as floats", text: ",source,target\n0,1.0,2.0\n1,2.0,3.0\n", want: []string{"1 2", "2 3"}},
		{name: "times as dates", text: "src,dst,time\n1,2,1970-01-02\n1,2,1970-01-01 00:01:00\n", want: []string{"1 2 [86400]", "1 2 [60]"}},
		{name: "the rest skipped", text: "1,2,x,y\n3,4,z\n", o: table.Options{Columns: []string{"src", "dst", "-*"}}, want: []string{"1 2", "3 4"}},
		{name: "ids that begin like comments", text: "src,dst\n#go,#rust\n# a comment\n", ids: store.IDsStrings, want: []string{"#go #rust"}},
		{name: "named by --columns, with a header", text: "who,whom,score\na,b,1\n", o: table.Options{Columns: []string{"src", "dst", "weight"}}, ids: store.IDsStrings, want: []string{"a b [1]"}},
		{name: "no header, whatever it says", text: "src,dst\n", o: table.Options{Header: new(bool)}, ids: store.IDsStrings, want: []string{"src dst"}},
		{name: "strings without a header", text: "a,b\na,b\n", ids: store.IDsStrings, want: []string{"a b", "a b"}},
		{name: "half a header is a name", text: "1,b\n2,3\n", o: table.Options{Header: new(bool)}, ids: store.IDsStrings, want: []string{"1 b", "2 3"}},
		{name: "one line", text: "7 8", want: []string{"7 8"}},
		{name: "features", text: "1,2,likes,.5,9,1,2,-3,4e300\n",
			o:    table.Options{Columns: []string{"src", "dst", "relation", "weight", "timestamp", "e*2", "n:int32", "d:float64"}},
			want: []string{"1 2 likes [0.5] [9] [1 2] [-3] [4e+300]"}},
		{name: "skipped fields", text: "x,y,1,2,z\n", o: table.Options{Columns: []string{"-*2", "dst", "src", "-"}}, want: []string{"2 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Format: "edgelist", Text: tt.o, FS: memFS(t, map[string][]byte{"e.txt": []byte(tt.text)})}
			s, err := Open("e.txt", o)
			if err != nil {
				t.Fatal(err)
			}
			want := tt.ids
			if want == "" {
				want = store.IDsIntegers
			}
			if got := s.Describe().IDs; got != want {
				t.Errorf("ids are %s, expected %s", got, want)
			}
			got, err := show(t, s)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("edges %q (%v), expected %q", got, err, tt.want)
			}
		})
	}
}

// Every file of triples has the header that the first one has.
func TestTriplesHeader(t *testing.T) {
	yes := true
	s, err := Open("d", Options{Text: table.Options{Header: &yes}, FS: memFS(t, map[string][]byte{
		"d/train.tsv": []byte("h\tr\tt\na\tlikes\tb\n"), "d/valid.tsv": []byte("h\tr\tt\nb\tlikes\ta\nh\tr\tt\n")})})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = s.EdgeList(t.Context(), ingest.Env{Threads: 1}, 0, func(b *ingest.EdgeBatch) error {
		n += b.Len()
		return nil
	})
	if edges, showErr := show(t, s); len(edges) != 1 || n != 2 || err != nil || showErr != nil {
		t.Errorf("edges %q and %d of valid (%v, %v), expected one and two", edges, n, showErr, err)
	}
}

func TestEdgeListBadInput(t *testing.T) {
	tests := []struct {
		name, text string
		columns    string
		want       string
	}{
		{"no integer", "1,2\n3,x\n", "", "line 2: column 3: \"x\" is no node id"},
		{"an empty field", "1,2,5\n3,4, \n", "src,dst,weight", "line 2: column 5: \"\" is no finite number"},
		{"too few fields", "1,2,5\n3,4\n", "src,dst,e", "line 2: column 4: the line has 2 fields, expected 3"},
		{"NaN", "1,2,NaN\n", "src,dst,e:float64", "line 1: column 5: \"NaN\" is no finite number of 64 bits (e)"},
		{"too large", "1,2,3000000000\n", "src,dst,e:int32", "line 1: column 5: \"3000000000\" is no integer of 32 bits (e)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{FS: memFS(t, map[string][]byte{"e.csv": []byte(tt.text)}), Text: table.Options{IDs: store.IDsIntegers}}
			if tt.columns != "" {
				o.Text.Columns = strings.Split(tt.columns, ",")
			}
			if err := openDrain(t, o.FS, "e.csv", o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, expected %q", err, tt.want)
			}
		})
	}
}

// What can be read in two ways is refused, with the flag that says which.
func TestEdgeListAmbiguous(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"other names", "buyer,product\n1,2\n", "--header yes --columns src,dst"},
		{"numbered names of strings", "user1,user2\nann,bob\n", "--header yes or --header no"},
		{"other names of strings", "user_name,item_name\nu1,i1\n", "--header yes"},
		{"names of more columns", "user_name,item_name,action,rating,ts\n1,10,buy,4.5,17\n", "--header yes --columns src,dst,-,rating,ts"},
		{"fields left over", "1,2,5\n2,3,6\n", "3 fields, of which 1 are left over; say what each is with --columns, such as --columns src,dst,weight"},
		{"a relation left over", "a,likes,3\nb,hates,4\n", "--columns src,relation,dst"},
		{"names that are nodes too", "head,tail\ntail,head\n", "--header yes or --header no"},
		{"half a header", "1,b\n2,3\n", "--header no"},
		{"one field", "a\nb\n", "--delimiter"},
		{"numbers and text", "src,dst,n\n1,2,3\n1,2,many\n", "column \"n\" holds numbers and text (\"many\")"},
		{"UTF-16", "\xff\xfes\x00", "UTF-16"},
		{"quotes written twice between tabs", "a\tb\n\"x \"\"y\"\"\"\tb\n", "--quotes yes"},
		{"text after a quote", "\"a\"b,c\n", "after a quoted field"},
		{"a quote within a field", "a,b\"c\n", "--quotes no"},
		{"a quote that is not closed", "a,b\nc,\"d\n", "not closed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := Options{Format: "edgelist", FS: memFS(t, map[string][]byte{"e.txt": []byte(tt.text)})}
			err := openDrain(t, o.FS, "e.txt", o)
			if !errors.Is(err, ingest.ErrInput) || !strings.Contains(fmt.Sprint(err), tt.want) {
				t.Errorf("%v, expected %q", err, tt.want)
			}
		})
	}
}

// A record in quotes is whole though blocks end in it, and lines after it keep their numbers.
func TestQuotedRecordsAcrossBlocks(t *testing.T) {
	var text strings.Builder
	text.WriteString("src,dst\n")
	const rows = 40000
	for i := range rows {
		fmt.Fprintf(&text, "\"node %d\nof \"\"many\"\", %s\",b\n", i, strings.Repeat("x", i%97))
	}
	text.WriteString("a,b,c\n")
	o := Options{FS: memFS(t, map[string][]byte{"e.csv": []byte(text.String())}), Text: table.Options{SkipBadMax: 1}}
	var bad error
	o.Text.OnBad = func(err error) { bad = err }
	s, err := Open("e.csv", o)
	if err != nil {
		t.Fatal(err)
	}
	edges, err := show(t, s)
	if err != nil || len(edges) != rows || edges[rows-1] != fmt.Sprintf("node %d\nof \"many\", %s b", rows-1, strings.Repeat("x", (rows-1)%97)) {
		t.Errorf("%d edges, the last %q (%v)", len(edges), edges[max(0, len(edges)-1)], err)
	}
	if want := fmt.Sprintf("line %d:", 2*rows+2); bad == nil || !strings.Contains(bad.Error(), want) {
		t.Errorf("%v, expected %s", bad, want)
	}
}

func TestFieldsRefused(t *testing.T) {
	for _, columns := range []string{"src", "src,dst,src", "src,dst,e*0", "src,dst,e*x", "src,dst,:int32", "src,dst,e:uint8", "src:int32,dst", "src,dst,weight*2"} {
		_, err := Open("e.csv", Options{FS: memFS(t, map[string][]byte{"e.csv": []byte("1,2\n")}), Text: table.Options{Columns: strings.Split(columns, ",")}})
		if !errors.Is(err, ingest.ErrOptions) {
			t.Errorf("%s: %v, expected an error of the options", columns, err)
		}
	}
}
