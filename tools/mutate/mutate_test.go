package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMeasure: of a package's mutants those are killed that its tests notice, the others survive by name, and the files stay.
func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	source := `package p

import "errors"

func Clamp(x, most int) int {
	if x > most && most > 0 {
		return most
	}
	return x + 1
}

func Do(f func() error) error {
	if err := f(); err != nil {
		return err
	}
	return errors.New("never")
}
`
	for name, text := range map[string]string{
		"go.mod": "module example.org/p\n\ngo 1.26\n",
		"p.go":   source,
		"p_test.go": `package p

import "testing"

func Test(t *testing.T) {
	if Clamp(1, 5) != 2 || Clamp(9, 5) != 5 || Clamp(9, 0) != 10 {
		t.Fatal("wrong")
	}
	if Do(func() error { return nil }) == nil {
		t.Fatal("no error")
	}
}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	out, err := measure(t.Context(), options{Dir: dir, Packages: []string{"./..."}, Seed: 1, Log: &log,
		Reasons: reasons("# a comment\np.go\tClamp\tx > most → x >= most\tlisted, for this test\n")})
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	got := map[string]string{}
	for _, r := range out {
		verdict := "survived"
		switch {
		case r.Killed:
			verdict = "killed"
		case r.Reason != "":
			verdict = "equivalent"
		}
		got[r.From+" → "+r.To] = verdict
	}
	for change, want := range map[string]string{
		"x > most && most > 0 → x > most || most > 0": "killed",
		"x > most → x >= most":                        "equivalent",
		"most > 0 → most >= 0":                        "killed",
		"x + 1 → x + (1 + 1)":                         "killed",
		"err != nil → false":                          "survived",
	} {
		if got[change] != want {
			t.Errorf("%s: %q, expected %q", change, got[change], want)
		}
	}
	if len(got) != 5 {
		t.Errorf("mutants %v, expected five", got)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "p.go")); err != nil || string(b) != source {
		t.Errorf("the source was changed: %v", err)
	}
	if !strings.Contains(log.String(), "SURVIVED   p.go:13 Do") {
		t.Errorf("log %s", log.String())
	}

	// Another package's tests kill the one that its own let live.
	for name, text := range map[string]string{"q/q.go": "package q\n", "q/q_test.go": `package q

import (
	"errors"
	"testing"

	"example.org/p"
)

func Test(t *testing.T) {
	if bad := errors.New("bad"); p.Do(func() error { return bad }) != bad {
		t.Fatal("another error")
	}
}
`, "log": log.String()} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	only, err := survivorsOf(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	out, err = measure(t.Context(), options{Dir: dir, Packages: []string{"."}, Only: only, NotOwn: true, By: []string{"./q"}, Seed: 1, Log: &log})
	if err != nil || len(out) != 1 || !out[0].Killed || out[0].Func != "Do" {
		t.Errorf("%v, %v: expected the survivor, killed by the other package\n%s", out, err, log.String())
	}
}
