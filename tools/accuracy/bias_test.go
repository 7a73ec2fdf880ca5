package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestBiasPoints(t *testing.T) {
	o := biasOptions{partitions: []int{8, 32}}
	var got [][3]int
	for _, x := range o.points() {
		got = append(got, [3]int{x.Partitions, x.Buffer, x.Logical})
	}
	want := [][3]int{{8, 8, 0}, {8, 2, 0}, {8, 2, 8}, {32, 8, 0}, {32, 8, 8}, {32, 8, 16}, {32, 8, 32}}
	if len(got) != len(want) {
		t.Fatalf("points %v, expected %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("point %d is %v, expected %v", i, got[i], want[i])
		}
	}
}

func TestDrawBias(t *testing.T) {
	points := []biasPoint{
		{Plan: "memory", Partitions: 8, Buffer: 8, Mean: .27},
		{Plan: "beta", Partitions: 8, Buffer: 2, Mean: .24, Bias: .9},
		{Plan: "comet", Partitions: 8, Buffer: 2, Logical: 8, Mean: .26, Bias: .5},
		{Plan: "comet", Partitions: 16, Buffer: 4, Logical: 8, Mean: .265, Bias: .4},
		{Plan: "comet", Partitions: 16, Buffer: 4, Logical: 16, Mean: .262, Bias: .6},
	}
	for _, name := range []string{"bias.svg", "bias.png"} {
		path := filepath.Join(t.TempDir(), name)
		if err := drawBias(points, path); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if name == "bias.png" {
			if !bytes.HasPrefix(b, []byte("\x89PNG")) {
				t.Errorf("%s begins with %q", name, b[:4])
			}
			continue
		}
		for _, text := range []string{"COMET, p=8", "COMET, p=16", "BETA", "in memory", "l=16", "Edge Permutation Bias"} {
			if !bytes.Contains(b, []byte(text)) {
				t.Errorf("%s does not say %q", name, text)
			}
		}
	}
	if err := drawBias(points, filepath.Join(t.TempDir(), "bias.doc")); err == nil {
		t.Error("a plot of unknown format: no error")
	}
}
