package formats

import (
	"strings"
	"testing"
)

// Files as people have them: what each column is found to be, without a flag.
func TestGuessedMeanings(t *testing.T) {
	bow := strings.Repeat("\t0", 40)
	for _, c := range []struct {
		name, path string
		files      map[string]string
		nodes      []string
		columns    string
		want       []string // uses, by column
	}{
		{"from and to of accounts", "t.csv", map[string]string{"t.csv": "from_account,to_account,amount,when\na1,a2,3,2020-01-02\na2,a3,4,2020-01-03\n"}, nil, "",
			[]string{"from_account: source", "to_account: destination", "amount: edge feature amount", "when: timestamp"}},
		{"two dates are none", "t.csv", map[string]string{"t.csv": "from,to,begin,end\na,b,2020-01-02,2020-01-03\n"}, nil, "",
			[]string{"begin: left out: dates", "end: left out: dates"}},
		{"numbered ends of integers", "elliptic.csv", map[string]string{"elliptic.csv": "txId1,txId2\n5,6\n6,7\n"}, nil, "", []string{"txId1: source", "txId2: destination"}},
		{"no header, of numbered names", "e.txt", map[string]string{"e.txt": "user1 user2\nuser5 user9\n"}, nil, "", []string{"field 1: source"}},
		{"two types", "ratings.csv", map[string]string{"ratings.csv": "userId,movieId,rating\n1,1,4.5\n2,1,3\n"}, nil, "",
			[]string{"userId: source of type user", "movieId: destination of type movie", "rating: edge feature rating"}},
		{"two types of three words", "x.csv", map[string]string{"x.csv": "creditCardId;merchantId\n1;1\n2;1\n"}, nil, "",
			[]string{"creditCardId: source of type credit_card", "merchantId: destination of type merchant"}},
		{"a time by another name", "e.csv", map[string]string{"e.csv": "1,2,3,1289241911.72836\n2,3,1,1289241941.5\n"}, nil, "src,dst,weight,time", []string{"field 4: timestamp"}},
		{"a header above dates", "e.csv", map[string]string{"e.csv": "Von;An;Datum\nK1;K2;26.09.2014\nK2;K3;01.10.2014\n"}, nil, "src,dst,timestamp", []string{"Datum: timestamp"}},
		{"a key that stands first", "e.csv", map[string]string{"e.csv": "src,dst\na1,a2\n", "n.csv": "account_id,branch_id,label\na1,7,x\na2,8,y\n"}, []string{"n.csv"}, "",
			[]string{"account_id: id", "branch_id: left out: an id", "label: label"}},
		{"text without a known ending", "cora.cites", map[string]string{"cora.cites": "35\t1033\n35\t103482\n"}, nil, "", []string{"field 1: source", "field 2: destination"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Nodes: c.nodes}
			if c.columns != "" {
				o.Text.Columns = strings.Split(c.columns, ",")
			}
			files := map[string][]byte{}
			for name, text := range c.files {
				files[name] = []byte(text)
			}
			o.FS = memFS(t, files)
			s, err := Open(c.path, o)
			if err != nil {
				t.Fatal(err)
			}
			if n, err := drain(t, s); n == 0 || err != nil {
				t.Errorf("%d edges, %v", n, err)
			}
			var all strings.Builder
			for _, u := range s.Describe().Uses {
				for _, name := range u.Names {
					all.WriteString(name + ": " + u.As + "\n")
				}
			}
			for _, want := range c.want {
				if !strings.Contains("\n"+all.String(), "\n"+want) {
					t.Errorf("no %q in\n%s", want, all.String())
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	// What is refused, with what to type instead.
	fs := memFS(t, map[string][]byte{"e.tsv": []byte("p1\tp2\n"), "n.content": []byte("p1" + bow + "\tAI\np2" + bow + "\tDB\n"),
		"d/kunden.csv": []byte("id,x\na,1\nb,2\n"), "d/links.csv": []byte("sender,receiver\na,b\n"), "tables/a.csv": []byte("id,x\n1,2\n"), "tables/b.csv": []byte("id,x,y\n1,2,3\n"), "friends.csv": []byte("person_id,friend_id\nann,bob\nbob,cy\n"), "one/a.cites": []byte("1 2\n3 4\n"),
		"wide.csv": []byte("1,2,1.5" + strings.ReplaceAll(bow, "\t", ",") + "\n"), "m.mtx": []byte("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 1\n"),
		"x.json": []byte("{\"a\": 1, \"b\": 2}\n"), "m.txt2": []byte("%%MatrixMarket\n1 2\n"), "b.x": {0, 1, 2, '\n'}})
	for _, c := range []struct {
		path  string
		nodes []string
		want  string
	}{
		{"e.tsv", []string{"n.content"}, "--node-columns says what they are, in order, such as id,x*40,label"},
		{"d", nil, "gstore ingest d/links.csv STORE --nodes d/kunden.csv"},
		{"tables", nil, "gstore ingest tables STORE --format database makes a node"},
		{"friends.csv", nil, "--columns src,dst"},
		{"one", nil, "gstore ingest one/a.cites STORE takes a file of edges"},
		{"wide.csv", nil, "--columns src,dst,x*41"},
		{"m.mtx", nil, "scipy.io.mmread"},
		{"m.txt2", nil, "unknown kind of file"},
		{"x.json", nil, "unknown kind of file"},
		{"b.x", nil, "unknown kind of file"},
	} {
		if err := openDrain(t, fs, c.path, Options{Nodes: c.nodes}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.path, err, c.want)
		}
	}
}
