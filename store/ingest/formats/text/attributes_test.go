package text

import (
	"fmt"
	"strings"
	"testing"
)

func TestAttributes(t *testing.T) {
	for line, want := range map[string]string{
		"0 1 {}":            "[]",
		" a\tb {'w': 1.5} ": "[w]",
		`0 1 {'w': 1, 'k': 'a, b: {', "q": [1, 2]}`: "[w k q]",
		"0 1":              "none",
		"0 1 2 {'w': 1}":   "none",
		"0 1 {w: 1}":       "none",
		"0 1 {'w': }":      "none",
		"0 1 {'w' 1}":      "none",
		"0 1 {'w': 'a}":    "none",
		"0 1 {'w': [1}":    "none",
		"0 {'a': 1} 1":     "none",
		"{'a': 1}":         "none",
		"":                 "none",
		"0 1 {'w': 1,}":    "[w]",
		"0 1 {'a\\'b': 1}": "[a\\'b]",
	} {
		got := "none"
		if names := attributeNames([]byte(line)); names != nil {
			got = fmt.Sprint(names)
		}
		if got != want {
			t.Errorf("%q has attributes %s, expected %s", line, got, want)
		}
	}
	d := Dialect{delimiter: ' ', attributes: []string{"w", "k"}}
	for line, want := range map[string]string{
		"0 1 {'w': 1, 'k': 'x y'}":     `["0" "1" "1" "x y"]`,
		"0 1 {'k': None, 'w': 2}":      `["0" "1" "2" ""]`,
		"0 1 {'w': 1}":                 "1 attributes, expected",
		"0 1 {'w': 1, 'w': 2}":         `attribute "w" twice`,
		"0 1 {'w': 1, 'k': 2, 'z': 3}": `attribute "z"`,
		"0 1 2":                        "expected two nodes and a dictionary",
		"0 1 {'w': 1, 'k' 2}":          "is no dictionary",
	} {
		fields, err := d.split(nil, []byte(line))
		if got := fmt.Sprintf("%q", fields); err == nil && got != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %s, %v, expected %s", line, got, err, want)
		}
	}
}
