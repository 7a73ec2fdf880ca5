package store

import (
	"slices"
	"testing"
)

// TestLabelSets: whatever the number of labels, bits, words and lists say the same of each set; nil has nothing.
func TestLabelSets(t *testing.T) {
	for _, labels := range []int{1, 7, 8, 9, 31, 32, 33, 64, 65, 112} {
		var bits []byte
		var want [][]int
		for set := range 5 {
			own := make([]byte, LabelSetBytes(labels))
			list := []int{}
			for j := range labels {
				if (j*j+set*3)%4 == set%4 || set == 4 {
					own[j/8] |= 1 << (j % 8)
					list = append(list, j)
				}
			}
			bits, want = append(bits, own...), append(want, list)
		}
		s := NewLabelSets(labels, bits)
		words, width := s.Words(), (labels+31)/32
		if s.Labels() != labels || s.Len() != len(want) || len(words) != width*len(want) || s.WordsBytes() != int64(4*len(words)) {
			t.Fatalf("%d labels: %d, %d sets in %d words of %d bytes", labels, s.Labels(), s.Len(), len(words), s.WordsBytes())
		}
		for set, list := range want {
			if got := s.Of(int32(set), []int{-1}); !slices.Equal(got[1:], list) || got[0] != -1 {
				t.Errorf("%d labels: set %d is %v, expected %v behind what was there", labels, set, got, list)
			}
			for j := range labels {
				in := slices.Contains(list, j)
				if word := uint32(words[set*width+j/32])>>(j%32)&1 == 1; s.Has(int32(set), j) != in || word != in {
					t.Errorf("%d labels: label %d of set %d: %v, in its word %v, expected %v", labels, j, set, s.Has(int32(set), j), word, in)
				}
			}
		}
	}
	var none *LabelSets
	if none.Words() != nil || none.WordsBytes() != 0 {
		t.Error("no sets have words")
	}
}
