package layering

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fuzzTarget is the definition of one.
var fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz[A-Za-z0-9_]*)\(`)

// A fuzz target's name stands in no second file of its package's folder and those below it, where the builder of
// .clusterfuzzlite looks for it.
func TestFuzzTargetsDiffer(t *testing.T) {
	files, targets := map[string]string{}, map[string]string{} // text by path, path by folder and name
	walk(t, ".go", func(path, text string) {
		files[path] = text
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, m := range fuzzTarget.FindAllStringSubmatch(text, -1) {
			targets[filepath.Join(filepath.Dir(path), m[1])] = path
		}
	})
	if len(targets) < 20 {
		t.Fatalf("only %d fuzz targets were found", len(targets))
	}
	for at, home := range targets {
		for path, text := range files {
			if path != home && strings.HasPrefix(path, filepath.Dir(at)+"/") && strings.Contains(text, filepath.Base(at)) {
				t.Errorf("%s is named in %s too, where the builder would look for it", at, path)
			}
		}
	}
}
