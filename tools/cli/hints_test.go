package cli_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/tools/cli"
	"github.com/gstore/gstore/tools/cli/clitest"
)

// TestHints: what the message of a mistake says to do works as it is printed. All that a remedy has and the mistake had not stands in the
// message.
func TestHints(t *testing.T) {
	makeMistaken(t)
	made, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []struct{ mistake, remedy string }{
		{"ingest e.csv s", "append s e.csv"},
		{"ingest s new", "partition s --partitions 2"},
		{"ingest s new", "export s out"},
		{"ingest e.csv new --columns src,dst", "ingest e.csv new --columns src,dst,-*"},
		{"ingest kg/train.txt new", "ingest kg/train.txt new --columns src,relation,dst"},
		{"ingest kg/train.txt new", "ingest kg/train.txt new --columns src,dst,-*"},
		{"train e.csv", "ingest e.csv e.gstore"},
		{"train x", "append x --split-random 60/20/20"},
		{"train s --model sag", "train s --model sage"},
		{"train s --plan hanoy", "train s --plan hanoi"},
		{"train k", "train k --overwrite --epochs 1 --dim 4"},
		{"train k", "train k --table NAME --epochs 1 --dim 4"},
		{"predict x a", "train s"},
		{"predict s --out answers.xlsx", "predict s --out answers.csv"},
		{"predict k a", "predict k a r ?"},
		{"predict k a", "predict k a --nearest cosine"},
		{"rollback s one", "versions s"},
		{"drop s", "versions s"},
		{"export s out --what nope", "export s out --what features,labels,splits,model"},
		{"trian s", "train s"},
		{"export s out --what embeddings", "eval s --out FOLDER --write embeddings"},
		{"ingest e.csv new --nodes n.csv --label town", "ingest e.csv new --nodes n.csv --label city"},
		{"ingest e.csv new --nodes n.csv --use ordered", "ingest e.csv new --nodes n.csv --use joined"},
		{"predict s --only nosuch", "predict s --only all"},
		{"ingest e.csv new --labels maybe", "ingest e.csv new --labels numbers"},
	} {
		t.Run(h.mistake+" → "+h.remedy, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
				t.Fatal(err)
			}
			t.Chdir(dir)
			code, _, says := clitest.Run(t, strings.Fields(h.mistake)...)
			if code == cli.ExitOK {
				t.Fatalf("nothing is refused: %s", says)
			}
			had := words(h.mistake + " --epochs 1 --dim 4 --partitions 2 --nodes n.csv e.csv answers.csv out new s r")
			for _, word := range words(h.remedy) {
				if !slices.Contains(had, word) && !strings.Contains(says, word) {
					t.Errorf("the message does not say %q: %s", word, says)
				}
			}
			if code, _, errs := clitest.Run(t, strings.Fields(h.remedy)...); code != cli.ExitOK {
				t.Errorf("gstore %s, after %s: exit %d: %s", h.remedy, says, code, errs)
			}
		})
	}
}

// words are those of a command line, and those between commas in them.
func words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == ',' })
}
