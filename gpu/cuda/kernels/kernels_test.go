package kernels

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func sources(t *testing.T) []string {
	files, err := filepath.Glob("*.cu")
	if err != nil {
		t.Fatal(err)
	}
	headers, err := filepath.Glob("*.h")
	if err != nil || len(files) == 0 || len(headers) == 0 {
		t.Fatal("no sources:", err)
	}
	files = append(files, headers...)
	slices.Sort(files)
	return files
}

// TestImagesAreOfTheseSources fails when kernels were changed and not compiled again.
func TestImagesAreOfTheseSources(t *testing.T) {
	h := sha256.New()
	for _, f := range sources(t) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		h.Write(b)
	}
	want, err := images.ReadFile("images/SOURCES")
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(h.Sum(nil)) != strings.TrimSpace(string(want)) {
		t.Error("kernels changed: run gpu/cuda/build.sh kernels")
	}
}

// TestImagesHoldEveryKernel: each image has every kernel that a source exports, and a
// device gets the image of its architecture.
func TestImagesHoldEveryKernel(t *testing.T) {
	var names []string
	export := regexp.MustCompile(`(?m)^(?:EXPORT_KERNEL|GATHER|MESSAGES|SEGMENT_MAX)\((\w+)`)
	for _, f := range sources(t) {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range export.FindAllSubmatch(b, -1) {
			if name := string(m[1]); name != "name" {
				names = append(names, name)
			}
		}
	}
	if len(names) < 50 {
		t.Fatalf("%d kernels, expected some 60", len(names))
	}
	for _, c := range []struct {
		major, minor int
		want         string
	}{{8, 0, "sm_80.cubin"}, {8, 6, "sm_86.cubin"}, {8, 7, "sm_86.cubin"}, {8, 9, "sm_89.cubin"}, {9, 0, "sm_90.cubin"}, {10, 0, "compute_80.ptx"}, {12, 0, "compute_80.ptx"}} {
		image, name, err := Image(c.major, c.minor)
		if err != nil || name != c.want {
			t.Errorf("capability %d.%d gets %s, %v; expected %s", c.major, c.minor, name, err, c.want)
		}
		for _, k := range names {
			mark := []byte(".text." + k + "\x00")
			if strings.HasSuffix(name, ".ptx") {
				mark = []byte(".entry " + k + "(")
			}
			if !bytes.Contains(image, mark) {
				t.Errorf("%s lacks kernel %s", name, k)
			}
		}
	}
	if _, _, err := Image(7, 5); err == nil {
		t.Error("a device of capability 7.5 is no error")
	}
}
