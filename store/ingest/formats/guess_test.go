package formats

import (
	"fmt"
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
		{"columns of one name", "t.csv", map[string]string{"t.csv": "Timestamp,From Bank,Account,To Bank,Account,Amount\n2022/09/01 00:20,010,8000EBD30,010,8000EBD31,1.5\n2022/09/01 00:21,03208,8000F4580,001,8000F5340,2\n"}, nil, "",
			[]string{"Timestamp: timestamp", "From Bank: edge feature", "Account: source", "Account.1: destination", "Amount: edge feature"}},
		{"what pandas makes of the second", "t.csv", map[string]string{"t.csv": "Account,Account.1,Amount\na,b,1.5\n"}, nil, "", []string{"Account: source", "Account.1: destination", "Amount: edge feature"}},
		{"bars, and a zone without a colon", "knows.csv", map[string]string{"knows.csv": "Person.id|Person.id|creationDate\n933|2199|2010-03-13T07:37:21.718+0000\n"}, nil, "",
			[]string{"Person.id: source", "Person.id.1: destination", "creationDate: timestamp"}},
		{"users in JODIE's form", "wikipedia.csv", map[string]string{"wikipedia.csv": "user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n0,0,0.0,0,-0.1,2\n1,0,36.0,0,.5,1\n"}, nil, "",
			[]string{"user_id: source of type user", "item_id: destination of type item", "timestamp: timestamp", "features.0: edge feature features [2]", "features.1: edge feature features [2]"}},
		{"SNAP's comments", "soc.txt", map[string]string{"soc.txt": "# Directed graph\n# FromNodeId\tToNodeId\tSign\n0\t1\t-1\n1\t2\t1\n"}, nil, "",
			[]string{"FromNodeId: source", "ToNodeId: destination", "Sign: edge feature Sign"}},
		{"KONECT's comments", "out.ucsocial", map[string]string{"out.ucsocial": "% asym positive\n% 2 2 2\n1 2 1 1082040961\n2 1 3 1082040962\n"}, nil, "",
			[]string{"src: source", "dst: destination", "weight: weight", "timestamp: timestamp"}},
		{"KONECT's of two types", "out.movielens", map[string]string{"out.movielens": "% bip weighted\n1 1 3.5\n2 1 4\n"}, nil, "",
			[]string{"left_id: source of type left", "right_id: destination of type right", "rating: edge feature rating"}},
		{"a graph database's names", "r.csv", map[string]string{"r.csv": "~id,~from,~to,~label,weight:Double\ne0,v1,v2,knows,.5\n"}, nil, "", []string{"~from: source", "~to: destination", "~label: relation", "weight:Double: weight"}},
		{"two colons", "ratings.dat", map[string]string{"ratings.dat": "1::1193::5::978300760\n2::661::3::978302109\n"}, nil, "user_id,item_id,weight,timestamp",
			[]string{"field 1: source of type user", "field 2: destination of type item", "field 3: weight", "field 4: timestamp"}},
		{"Ctrl-A, and no value as databases write it", "000000_0", map[string]string{"000000_0": "src\x01dst\n1\x012\n2\x013\n", "n.tsv": "id\tage\tlabel\n1\t\\N\ta\n2\t4\t\\N\n3\t5\tb\n"}, []string{"n.tsv"}, "",
			[]string{"age: feature", `label: label: classes ["a" "b"]`}},
		{"labels that nobody knows", "e.csv", map[string]string{"e.csv": "txId1,txId2\n1,2\n2,3\n", "n.csv": "txId,class\n1,1\n2,unknown\n3,2\n"}, []string{"n.csv"}, "", []string{"class: label: classes [\"1\" \"2\"]; \"unknown\" is none"}},
		{"labels called target", "e.csv", map[string]string{"e.csv": "node_1,node_2\n1,2\n2,3\n", "n.csv": "id,target\n1,1\n2,0\n3,2\n"}, []string{"n.csv"}, "", []string{"target: label"}},
		{"labels by the last word", "e.csv", map[string]string{"e.csv": "id_1,id_2\n1,2\n2,3\n", "n.csv": "id,name,ml_target,age\n1,a,1,5\n2,b,0,6\n3,c,1,7\n"}, []string{"n.csv"}, "",
			[]string{"name: left out: text", "ml_target: label", "age: feature x"}},
		{"two columns that might be labels", "e.csv", map[string]string{"e.csv": "id_1,id_2\n1,2\n2,3\n", "n.csv": "id,a_class,b_class\n1,1,5\n2,0,6\n3,1,7\n"}, []string{"n.csv"}, "",
			[]string{"a_class: feature x", "b_class: feature x"}},
		{"nodes without a header, with a label", "e.tsv", map[string]string{"e.tsv": "p1\tp2\n", "n.content": "p1" + bow + "\tAI\np2" + bow + "\tDB\n"}, []string{"n.content"}, "",
			[]string{"field 1: id", "field 42: label: classes [\"AI\" \"DB\"]"}},
		{"nodes without a header, beside labels", "e.csv", map[string]string{"e.csv": "txId1,txId2\n1,2\n2,3\n", "n.csv": "txId,class\n1,1\n2,unknown\n3,2\n", "f.csv": "1,5,.5\n2,6,1\n3,7,2\n"}, []string{"n.csv", "f.csv"}, "",
			[]string{"class: label", "field 1: id", "field 2: feature x[0] of 2", "field 3: feature x[1] of 2"}},
		{"ids of another program's", "e.csv", map[string]string{"e.csv": "from,to\n1,2\n2,3\n", "n.csv": "id,views,mature,new_id\n7001,5,True,1\n7002,6,False,2\n7003,7,True,3\n"}, []string{"n.csv"}, "",
			[]string{"id: left out: an id is no quantity", "views: feature x[0] of 2", "new_id: id"}},
		{"ids that edges name too", "e.csv", map[string]string{"e.csv": "from,to\n1,2\n2,3\n", "n.csv": "id,views,new_id\n1,5,3\n2,6,2\n3,7,1\n"}, []string{"n.csv"}, "",
			[]string{"id: id", "views: feature x", "new_id: left out: an id is no quantity"}},
		{"a class called unknown", "e.csv", map[string]string{"e.csv": "txId1,txId2\n1,2\n2,3\n", "n.csv": "txId,class\n1,known\n2,unknown\n3,known\n"}, []string{"n.csv"}, "", []string{"class: label: classes [\"known\" \"unknown\"]\n"}},
		{"fractions after a comma", "e.csv", map[string]string{"e.csv": "Von;An;Betrag;Anteil\nK1;K2;1,5;1\nK2;K3;-20;0,25\n"}, nil, "src,dst,Betrag,Anteil", []string{"Betrag: edge feature Betrag", "Anteil: edge feature Anteil"}},
		{"lists of numbers", "e.csv", map[string]string{"e.csv": "src_id,dst_id,feat,price\n0,1,\"0.1, 0.2\",\"1,200\"\n1,0,\"[0.5, 2]\",\"1,300\"\n",
			"n.csv": "node_id,feat,bag,words,label\n0,\"[0.1 2e-3]\",\"1,0,1\",\"1,2\",0\n1,\"[3 4]\",\"0,0,1\",\"1,2,3\",1\n"}, []string{"n.csv"}, "",
			[]string{"feat.0: edge feature edge_feat [2]", "feat.1: edge feature edge_feat [2]", "price: left out: text", "feat.0: feature feat [2]", "bag.2: feature bag [3]", "words: left out: text", "label: label"}},
		{"a list that is left out", "e.csv", map[string]string{"e.csv": "src_id,dst_id,feat\n0,1,\"0.1, 0.2\"\n1,0,\"0.5, 2\"\n"}, nil, "", []string{"feat: left out, as told"}},
		{"a graph database's nodes", "r.csv", map[string]string{"r.csv": ":START_ID,:END_ID,:TYPE,since:int\n1,2,KNOWS,2001\n", "n.csv": "id:ID,name,age:int,:LABEL\n1,Ann,30,Person\n2,Bo,31,Robot\n"}, []string{"n.csv"}, "",
			[]string{":START_ID: source", ":END_ID: destination", ":TYPE: relation", "id:ID: id", "age:int: feature x", ":LABEL: feature :LABEL: which of"}},
		{"Matrix Market", "m.mtx", map[string]string{"m.mtx": "%%MatrixMarket matrix coordinate real general\n% c\n3 3 2\n1 2 1.5\n3 1 2\n"}, nil, "", []string{"row: source", "column: destination", "value: weight"}},
		{"parts of longer names", "kg", map[string]string{"kg/wikidata5m_transductive_train.txt": "Q1\tP1\tQ2\n", "kg/wikidata5m_transductive_valid.txt": "Q2\tP1\tQ1\n", "kg/README": "x\n"}, nil, "",
			[]string{"field 1: source", "field 2: relation", "field 3: destination"}},
		{"users and items of TGN's", "ml_wikipedia.csv", map[string]string{"ml_wikipedia.csv": ",u,i,ts,label,idx\n0,1,9,0.0,0.0,1\n1,2,9,36.0,0.0,2\n"}, nil, "",
			[]string{"u: source", "i: destination", "ts: timestamp", "label: edge feature label", "idx: left out: the numbers of rows"}},
		{"triples without a header", "drkg.tsv", map[string]string{"drkg.tsv": "Gene::1\tbinds\tGene::2\nGene::2\tbinds\tGene::3\nGene::3\tbinds\tGene::9\n"}, nil, "", []string{"field 1: source", "field 2: relation", "field 3: destination"}},
		{"JSON Lines", "e.jsonl", map[string]string{"e.jsonl": "{\"source\": \"a\", \"target\": \"b\", \"weight\": 1, \"time\": 5}\n{\"target\": \"a\", \"source\": \"b\", \"weight\": 2, \"time\": 6}\n"}, nil, "",
			[]string{"source: source", "target: destination", "weight: weight", "time: timestamp"}},
		{"an array of objects", "e.json", map[string]string{"e.json": "[{\"from\": 1, \"to\": 2, \"feat\": [0.5, 1]},\n{\"from\": 2, \"to\": 1, \"feat\": [1, 2]}]"}, nil, "", []string{"from: source", "to: destination", "feat.0: edge feature feat [2]"}},
		{"networkx's lists of edges", "g.edgelist", map[string]string{"g.edgelist": "0 1 {}\n1 2 {}\n"}, nil, "", []string{"src: source", "dst: destination"}},
		{"networkx's attributes", "g.txt", map[string]string{"g.txt": "a b {'weight': 0.5, 'kind': 'x, \\'y', 'n': 3}\nb c {'n': 4, 'kind': None, \"weight\": 2}\n"}, nil, "",
			[]string{"src: source", "dst: destination", "weight: weight", "kind: left out: text", "n: edge feature n"}},
		{"text without a known ending", "cora.cites", map[string]string{"cora.cites": "35\t1033\n35\t103482\n"}, nil, "", []string{"field 1: source", "field 2: destination"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Nodes: c.nodes}
			if c.name == "a list that is left out" {
				o.Text.Skip = []string{"feat"}
			}
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
	// A text of few values is likely the label, where none is called so.
	var pages strings.Builder
	for i := range 40 {
		fmt.Fprintf(&pages, "%d,page %d,%s\n", i, i, []string{"tvshow", "company"}[i%2])
	}
	named := memFS(t, map[string][]byte{"e.csv": []byte("id_1,id_2\n1,2\n"), "n.csv": []byte("id,page_name,page_type\n" + pages.String())})
	s, err := Open("e.csv", Options{FS: named, Nodes: []string{"n.csv"}})
	if err != nil {
		t.Fatal(err)
	}
	if notes := s.Describe().Notes; len(notes) != 1 || !strings.HasSuffix(notes[0], "--label page_type takes the 2 values of that one") {
		t.Errorf("notes %q", notes)
	}
	// What is refused, with what to type instead.
	fs := memFS(t, map[string][]byte{"e.tsv": []byte("p1\tp2\n"), "x.csv": []byte("7,1,2\n8,3,4\n"), "twice.csv": []byte("7,1,2\n7,3,4\n"),
		"elliptic/edgelist.csv": []byte("txId1,txId2\n7,8\n"), "elliptic/classes.csv": []byte("txId,class\n7,1\n8,2\n"), "elliptic/features.csv": []byte("7,1,2\n8,3,4\n"),
		"d/kunden.csv": []byte("id,x\na,1\nb,2\n"), "d/links.csv": []byte("sender,receiver\na,b\n"), "tables/a.csv": []byte("id,x\n1,2\n"), "tables/b.csv": []byte("id,x,y\n1,2,3\n"), "friends.csv": []byte("person_id,friend_id\nann,bob\nbob,cy\n"), "one/a.cites": []byte("1 2\n3 4\n"),
		"wide.csv": []byte("1,2,1.5" + strings.ReplaceAll(bow, "\t", ",") + "\n"), "m.mtx": []byte("%%MatrixMarket matrix array real general\n3 3\n1\n"),
		"c.mtx": []byte("%%MatrixMarket matrix coordinate complex general\n3 3 1\n1 2 1 1\n"), "h.mtx": []byte("%%MatrixMarket matrix coordinate real hermitian\n3 3 1\n1 2 1 1\n"), "w.mtx": []byte("%%MatrixMarket matrix coordinate pattern general\n3 4 1\n1 2\n"),
		"b.mtx": []byte("%%MatrixMarket\n1 1 1\n"), "s.mtx": []byte("%%MatrixMarket matrix coordinate pattern general\n3 4\n1 2\n"), "g.graphml": []byte("<graphml/>"), "a.tar.gz": {31, 139, 8}, "u.data": []byte("1\t2\t5\t978300760\n2\t2\t5\t978300761\n"),
		"three.tsv": []byte("a\tb\tc\nd\te\tf\n"), "cora/ind.cora.x": {128, 2},
		"kg.csv":    []byte("relation,x_index,x_id,x_name,y_index,y_id,y_name,score\nppi,0,9796,a,1,56992,b,.5\nppi,1,7918,c,0,9796,a,1\n"),
		"g.adjlist": []byte("0 1 2\n1 2\n"), "g.json": []byte(`{"directed": false, "nodes": [` + strings.Repeat(`{"id": 1}, `, 1000) + `{"id": 0}], "links": []}`),
		"asia/lastfm_edges.csv": []byte("node_1,node_2\n0,1\n1,2\n"), "asia/lastfm_target.csv": []byte("id,target\n0,1\n1,0\n2,1\n"), "asia/lastfm_features.json": []byte(`{"0": [1, 2], "1": [2, 3], "2": [1]}`),
		"x.json": []byte("{\"a\": 1, \"b\": 2}\n"), "m.txt2": []byte("%%MatrixMarket\n1 2\n"), "b.x": {0, 1, 2, '\n'}})
	for _, c := range []struct {
		path  string
		nodes []string
		want  string
	}{
		{"e.tsv", []string{"x.csv"}, "--node-columns says what they are, in order, such as id,x*2"},
		{"e.tsv", []string{"x.csv", "twice.csv"}, "twice.csv: the first line, [\"7\" \"1\" \"2\"], names no columns"},
		{"elliptic", nil, "gstore ingest elliptic/edgelist.csv STORE --nodes elliptic/classes.csv --nodes elliptic/features.csv takes"},
		{"d", nil, "gstore ingest d/links.csv STORE --nodes d/kunden.csv"},
		{"tables", nil, "gstore ingest tables STORE --format database makes a node"},
		{"friends.csv", nil, "--columns src,dst"},
		{"one", nil, "gstore ingest one/a.cites STORE takes a file of edges"},
		{"wide.csv", nil, "--columns src,dst,x*41"},
		{"m.mtx", nil, "expected one of coordinates"},
		{"c.mtx", nil, "values of kind complex"},
		{"h.mtx", nil, "a matrix that is hermitian"},
		{"w.mtx", nil, "3 rows and 4 columns, expected a square one"},
		{"b.mtx", nil, "expected %%MatrixMarket matrix coordinate"},
		{"s.mtx", nil, "the numbers of rows, columns and entries"},
		{"g.graphml", nil, "networkx"},
		{"g.adjlist", nil, "networkx"},
		{"g.json", nil, "node_link_graph"},
		{"asia", nil, "gstore ingest asia/lastfm_edges.csv STORE --nodes asia/lastfm_target.csv"},
		{"three.tsv", nil, "--columns src,relation,dst"},
		{"cora", nil, "cora: no ind.cora.y"},
		{"a.tar.gz", nil, "unpack it"},
		{"u.data", nil, "--columns user_id,item_id,weight,timestamp"},
		{"kg.csv", nil, `may be "x_index" and "y_index", or "x_id" and "y_id"; --columns says which, in order, as relation,src,-,-,dst,-,-,score`},
		{"m.txt2", nil, "unknown kind of file"},
		{"x.json", nil, "looks like names of columns"},
		{"b.x", nil, "unknown kind of file"},
	} {
		if err := openDrain(t, fs, c.path, Options{Nodes: c.nodes}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, expected %q", c.path, err, c.want)
		}
	}
}
