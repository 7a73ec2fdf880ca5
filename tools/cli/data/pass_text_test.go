package data

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/partitioner"
)

func TestPassText(t *testing.T) {
	p := partitioner.Pass{Pass: 3, Level: 2, Moved: 7, CutRate: .25, Largest: 1.0301}
	if text := passText(p); text != "pass 3, level 2: 25.0 % of edges cut, largest partition 1.030 of the mean, 7 nodes moved" {
		t.Error(text)
	}
	p.CutRate = -1
	if text := passText(p); strings.Contains(text, "cut") {
		t.Error(text)
	}
}
