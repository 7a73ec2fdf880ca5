package text

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/gstore/gstore/store/ingest"
)

// csvOf is what a file of JSON objects is read as.
func csvOf(text string) (string, error) {
	b, err := io.ReadAll(newJSONRows(io.NopCloser(strings.NewReader(text)), "a.json"))
	return string(b), err
}

func TestJSONRows(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "[]": "", " [ ] ": "",
		`{"a": 1, "b": "x"}` + "\n" + `{"b": "y, \"z\"\nw", "a": -2.5e3}` + "\n": `"a","b"` + "\n1,\"x\"\n-2.5e3,\"y, \"\"z\"\" w\"\n",
		`[{"a": true, "b": null}, {"a": false, "c": "ü\u00e9"}]`:                 `"a","b","c"` + "\nTrue,,\nFalse,,\"üé\"\n",
		`{"a": {"b": {"c": 1}, "d": []}, "e": [0.5, 2]}{"e": ["x", "y"]}`:        `"a.b.c","a.d","e"` + "\n1,,\"[0.5, 2]\"\n,,\"x|y\"\n",
		`{"a":{"b":{"c":{"d":{"e":1}}}},"f":[[1],[2]]}`:                          `"f"` + "\n\"[[1],[2]]\"\n",
	} {
		if got, err := csvOf(text); err != nil || got != want {
			t.Errorf("%s: %q (%v), expected %q", text, got, err, want)
		}
	}
	// Keys that come late, but among the first objects, are columns; those that come later still are left out.
	var b strings.Builder
	for i := range jsonSampleRows + 5 {
		if i == jsonSampleRows-1 {
			fmt.Fprintf(&b, `{"a": %d, "late": 7}`, i)
		} else if i == jsonSampleRows {
			fmt.Fprintf(&b, `{"a": %d, "later": 8}`, i)
		} else {
			fmt.Fprintf(&b, `{"a": %d}`, i)
		}
	}
	got, err := csvOf(b.String())
	if lines := strings.Split(got, "\n"); err != nil || len(lines) != jsonSampleRows+7 || lines[0] != `"a","late"` || lines[jsonSampleRows] != fmt.Sprintf("%d,7", jsonSampleRows-1) || lines[jsonSampleRows+1] != fmt.Sprintf("%d,", jsonSampleRows) {
		t.Errorf("%d lines (%v), %q", len(lines), err, lines[0])
	}
	for text, want := range map[string]string{
		`{"a": 1} 2`: "object 2: 2, expected an object", `[1]`: "object 1: 1, expected an object", `{"a": 1`: "object 1: the file ends within it", `{"a" 1}`: "object 1: invalid character '1' after object key", `[{"a": 1}`: "object 2: the file ends within it", `[`: "object 1: the file ends within it",
		`{"a": 1}{"a": tru}`: "object 2: invalid character", `[{"a": 1} {"a": 2}]`: "object 2: invalid character", `{"a": [` + strings.Repeat("1, ", 400) + `1]}`: `whose "a" is a long list`,
		`{"a": "` + strings.Repeat("x", 40<<20) + `"}`: "an object of more than 16 MiB",
	} {
		if _, err := csvOf(text); !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, expected %q", text, err, want)
		}
	}
}

func FuzzJSONRows(f *testing.F) {
	f.Add(`{"a": 1, "b": "x"}` + "\n" + `{"b": "y", "a": [1, 2]}`)
	f.Add(`[{"a": {"b": null}}, {"a": true}]`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := csvOf(text)
		if err != nil && !errors.Is(err, ingest.ErrInput) {
			t.Fatalf("%v: not marked as an error of the input", err)
		}
		widths := map[int]bool{}
		d := Dialect{delimiter: ',', quotes: true}
		for rest := []byte(got); len(rest) > 0 && err == nil; {
			var line []byte
			if line, rest, _, _ = d.next(rest); len(line) > 0 {
				fields, err := d.split(nil, line)
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				widths[len(fields)] = true
			}
		}
		if len(widths) > 1 {
			t.Fatalf("rows of different widths in %q", got)
		}
	})
}
