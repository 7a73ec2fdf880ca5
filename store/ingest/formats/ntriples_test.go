package formats

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
)

// statementsText holds every kind of term: addresses, blank nodes, literals with a language, a type, quotes and ends of statements in them.
const statementsText = `# a comment
<http://x/a> <http://x/knows> <http://x/b> .

<http://x/b> <http://x/knows> _:b1 .
_:b1 <http://x/knows> <http://x/a>. # without a blank
<http://x/a> <http://x/name> "Ann \"the\" <b> ." .
<http://x/a> <http://x/name> "Anna"@en-gb .
<http://x/a> <http://x/born> "1990-01-02"^^<http://www.w3.org/2001/XMLSchema#date> .
<http://x/a>	<http://x/likes>	<http://x/a>	<http://x/graph>	.
_:x <http://x/likes> _:y.
`

func TestNTriples(t *testing.T) {
	packed, err := base64.StdEncoding.DecodeString(packedStatement)
	if err != nil {
		t.Fatal(err)
	}
	for path, c := range map[string]struct {
		text []byte
		want []string
		note string
	}{
		"g.nt": {[]byte(statementsText), []string{"_:b1 http://x/a http://x/knows", "_:x _:y http://x/likes", "http://x/a http://x/a http://x/likes",
			"http://x/a http://x/b http://x/knows", "http://x/b _:b1 http://x/knows"}, `such as "Ann \"the\" <b> ."`},
		"g.nt.gz":  {gzipped(t, []byte("<a> <p> <b> .\r\n<b> <p> <a> .")), []string{"a b p", "b a p"}, ""},
		"g.nq.bz2": {packed, []string{"a b p"}, ""},
	} {
		s, err := Open(path, Options{FS: memFS(t, map[string][]byte{path: c.text})})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		got, err := show(t, s)
		if slices.Sort(got); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q (%v), expected %q", path, got, err, c.want)
		}
		if notes := strings.Join(s.Describe().Notes, "\n"); c.note != "" && !strings.Contains(notes, c.note) || c.note == "" && notes != "" {
			t.Errorf("%s: notes %q, expected %q", path, notes, c.note)
		}
	}
	for _, line := range []string{"<a> <p> <b>", "<a> <p> .", "<a> <p> <b .", "a p b .", `"a" <p> <b> .`, `<a> <p> "b .`, "<a> <p> <b> . <c>", "<> <p> <b> .", `<a> <p> "b"^^<c .`, `<a> <p> "b\`} {
		fs := memFS(t, map[string][]byte{"g.nt": []byte("<a> <p> <b> .\n" + line + "\n")})
		if err := openDrain(t, fs, "g.nt", Options{}); err == nil || !strings.Contains(err.Error(), "line 2: ") {
			t.Errorf("%s: %v, expected an error of line 2", line, err)
		}
		bad := 0
		o := Options{Text: TextOptions{SkipBadMax: 1, OnBad: func(error) { bad++ }}}
		if err := openDrain(t, fs, "g.nt", o); err != nil || bad != 1 {
			t.Errorf("%s: %v, %d lines skipped", line, err, bad)
		}
	}
}

// packedStatement is "<a> <p> <b> <g> .\n" by bzip2.
const packedStatement = "QlpoOTFBWSZTWcJaG/AAAANZgAAQQAEABTCAQAAgADEGTECUNBpVglMc22Hi7kinChIYS0N+AA=="

func FuzzNTriples(f *testing.F) {
	f.Add([]byte(statementsText))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = openDrain(t, memFS(t, map[string][]byte{"g.nt": b}), "g.nt", Options{})
	})
}
