package cli_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// mistakes are what people type who do not know better, one to a line; testdata/mistakes.golden has what they are told. The stores are s,
// trained, of nodes with labels; x, which has no split; u, without labels; k, trained, of triples; and c, of customers and products.
const mistakes = `ingest
ingest n.csv
ingest missing.csv new
ingest e.csv s
ingest s new
ingest e.csv e.csv
ingest empty.csv new
ingest latin.csv latin
ingest book.xlsx new
ingest e.csv new --columns src,dst
ingest e.csv new --columns src,dst,-,quantity
ingest e.csv new --columns a,b,c
ingest e.csv new --nodes n.csv --use ordered
ingest e.csv new --nodes n.csv --skip Age
ingest e.csv new --split-random 50/50
ingest e.csv new --format numpy
ingest e.csv new --format cvs
ingest e.csv new --partitions 100
ingest e.csv new --partitioner metis
ingest kg ku --undirected
append s missing.csv
append s kg/train.txt
append k e.csv
append c new.csv
append nosuch e.csv
append s --features f.npy
train
train nosuch
train e.csv
train x
train u
train s --task link
train s --task nodes
train s --model gtc
train k --model sag
train k --features x
train s --epochs 0
train s --epochs ten
train s --lr -1
train s --hidden 0
train s --fanouts a
train s --batchsize 4
train s --mem 4x
train s --mem 1MiB
train s --plan hanoy
train s --features y
train s --split w
train s --config missing.yaml
train s --config e.csv
train k
eval nosuch
eval u
eval s --checkpoint 77
eval k --splits test
predict s zz
predict s a --checkpoint 77
predict s a --out answers.xlsx
predict k a
predict k a r b
predict k a nosuch ?
predict k zz r ?
export s out --what nope
export s out --format xlsx
export s s
inspect e.csv
inspect k --version 9
partition s --partitions 100
partition s --partitioner metis
precompute k
precompute u
verify nosuch
report e.csv
rollback s
rollback s 7
rollback s one
drop s
drop s --run 99
drop k --table nosuch
prune s --keep 0
generate sbm
generate smb out
generate sbm out --nodes -3
help foo
trian s
plan u --budget 4GiB
devices all`

// makeMistaken makes the folder of files and stores that mistakes are made with.
func makeMistaken(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	clitest.Put(t, ".", map[string][]byte{
		"n.csv": []byte("id,age,city,joined,label\na,1,Rome,2024-01-01,x\nb,2,Paris,2024-01-02,y\nc,3,Rome,2024-01-03,x\nd,4,Rome,2024-01-04,y\n"),
		"e.csv": []byte("src,dst,weight\na,b,1\nb,c,2\nc,d,1\n"), "empty.csv": {}, "latin.csv": []byte("src,dst\nMalm\xf6,Lund\n"), "book.xlsx": []byte("PK\x03\x04"),
		"kg/train.txt": []byte("a\tr\tb\nb\tr\tc\nc\tq\ta\n"), "kg/valid.txt": []byte("a\tq\tc\n"), "kg/test.txt": []byte("b\tr\ta\n"),
		"buys.csv": []byte("customer_id,product_id\nC1,1\nC2,2\n"), "new.csv": []byte("src,dst\nC1,9\n"),
		"customer.csv": []byte("id,age\nC1,1\nC2,2\n"), "product.csv": []byte("id,price\n1,1\n2,2\n"),
	})
	for _, args := range []string{"ingest e.csv s --nodes n.csv --split-random 50/25/25", "train s --epochs 1", "ingest e.csv x --nodes n.csv --split-random none", "ingest e.csv u --undirected",
		"ingest kg k", "train k --epochs 1 --dim 4", "ingest buys.csv c --nodes customer=customer.csv --nodes product=product.csv"} {
		clitest.MustRun(t, append(strings.Fields(args), "--quiet")...)
	}
}

// TestMistakes: each is refused with a message that says what was found, what was expected and what to do. -rewrite writes the file of messages,
// for people to read.
func TestMistakes(t *testing.T) {
	file, err := filepath.Abs(filepath.Join("..", "..", "testdata", "mistakes.golden"))
	if err != nil {
		t.Fatal(err)
	}
	makeMistaken(t)
	var said strings.Builder
	for line := range strings.Lines(mistakes) {
		line = strings.TrimSpace(line)
		code, _, errs := clitest.Run(t, append(strings.Fields(line), "--quiet")...)
		if code == cli.ExitOK && !strings.Contains(errs, "warning") {
			t.Errorf("gstore %s: nothing is refused", line)
		}
		fmt.Fprintf(&said, "$ gstore %s\n%s[%d]\n\n", line, plain(errs), code)
	}
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(said.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	old, now := strings.Split(string(want), "\n\n"), strings.Split(said.String(), "\n\n")
	for k := range max(len(old), len(now)) {
		if k >= len(old) || k >= len(now) || old[k] != now[k] {
			t.Errorf("message %d is\n%s\nexpected\n%s\n(go test ./tools/cli -run Mistakes -rewrite writes them)", k, at(now, k), at(old, k))
		}
	}
}

func at(list []string, k int) string {
	if k >= len(list) {
		return "none"
	}
	return list[k]
}

// numbers of a message that depend on the machine.
var machines = regexp.MustCompile(`\d+(\.\d+)? ?MiB|of \d+ processors`)

// plain is what was said, without what depends on the machine.
func plain(errs string) string { return machines.ReplaceAllString(errs, "N MiB") }
