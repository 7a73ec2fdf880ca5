package eval

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gstore/gstore/sampler/keyed"
)

// TestF1 compares with values computed by hand.
func TestF1(t *testing.T) {
	for _, c := range []struct {
		name         string
		classes      int
		counts       []int64
		macro, micro float64
	}{
		{"empty", 2, []int64{0, 0, 0, 0}, 0, 0},
		{"no class", 0, nil, 0, 0},
		{"one class", 1, []int64{7}, 1, 1},
		{"all right", 2, []int64{3, 0, 0, 4}, 1, 1},
		{"two classes", 2, []int64{5, 1, 2, 2}, (10./13 + 4./7) / 2, .7},
		{"a class that is nowhere", 3, []int64{5, 1, 0, 2, 2, 0, 0, 0, 0}, (10./13 + 4./7) / 2, .7},
		{"a class that is only predicted", 3, []int64{5, 0, 1, 0, 4, 0, 0, 0, 0}, (10./11 + 1 + 0) / 3, .9},
	} {
		macro, micro := (&Confusion{c.classes, c.counts}).F1()
		if math.Abs(macro-c.macro) > 1e-12 || math.Abs(micro-c.micro) > 1e-12 {
			t.Errorf("%s: macro %v, micro %v, expected %v and %v", c.name, macro, micro, c.macro, c.micro)
		}
	}
}

// TestAUC compares with the definition, pair by pair, over equal scores, signed zeros,
// infinities and classes that do not occur, with scores in memory and in a file.
func TestAUC(t *testing.T) {
	r := keyed.New(3).Rand(0)
	for _, classes := range []int{1, 2, 3, 6} {
		for _, inMemory := range []bool{true, false} {
			const n = 200
			s, err := newScores(classes, n, nil, inMemory, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			var odds [][]float64
			var labels []int32
			for lo := 0; lo < n; lo += 50 {
				logits := make([]float32, 50*classes)
				of := make([]int32, 50)
				for i := range of {
					of[i] = int32(r.Below(uint64(min(classes+1, 5)))) - 1 + int32(classes/6) // class 5 of 6 does not occur; of fewer some have no label
					if of[i] >= int32(classes) {
						of[i] = -1
					}
					for c := range classes {
						logits[i*classes+c] = float32(r.Below(9)) - 4 // many equal ones
						if int32(c) == of[i] {
							logits[i*classes+c]++
						}
					}
					if of[i] < 0 {
						continue
					}
					row := make([]float64, classes)
					for c := range row {
						row[c] = float64(logOdds(logits[i*classes:(i+1)*classes], c))
					}
					odds, labels = append(odds, row), append(labels, of[i])
				}
				if err := s.add(logits, of); err != nil {
					t.Fatal(err)
				}
			}
			got, _, err := s.areas(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			sum, counted := 0., 0.
			for c := range classes {
				if classes == 2 && c == 0 {
					continue
				}
				var right, pairs float64
				for i, a := range labels {
					for j, b := range labels {
						if a != int32(c) || b == int32(c) {
							continue
						}
						pairs++
						switch x, y := odds[i][c], odds[j][c]; {
						case x > y:
							right++
						case x == y:
							right += .5
						}
					}
				}
				if pairs > 0 {
					sum, counted = sum+right/pairs, counted+1
				}
			}
			// One class has no pair, hence no area.
			if want := sum / counted; math.Abs(got-want) > 1e-12 || math.IsNaN(got) != math.IsNaN(want) || math.IsNaN(got) != (classes == 1) {
				t.Errorf("%d classes, in memory %v: area %v, expected %v", classes, inMemory, got, want)
			}
			if classes == 6 && counted == 6 {
				t.Error("every class occurs: the test was to leave one out")
			}
		}
	}
	for _, v := range [][2]float32{{-1, 1}, {-2, -1}, {1, 2}, {float32(math.Inf(-1)), -3e38}, {3e38, float32(math.Inf(1))}, {-1e-45, 0}} {
		if ordered(v[0]) >= ordered(v[1]) {
			t.Errorf("%v is not ordered below %v", v[0], v[1])
		}
	}
	if ordered(float32(math.Copysign(0, -1))) != ordered(0) {
		t.Error("the two zeros are not equal")
	}
	if a := areaUnderROC([]uint64{1, 3, 5}); !math.IsNaN(a) {
		t.Errorf("area %v without negatives, expected NaN", a)
	}
}

// TestLogOdds: the odds order nodes as probabilities do, and further where these saturate.
func TestLogOdds(t *testing.T) {
	r := keyed.New(5).Rand(0)
	var odds, p []float64
	for range 100 {
		l := make([]float32, 4)
		sum := 0.
		for i := range l {
			l[i] = float32(r.Normal())
			sum += math.Exp(float64(l[i]))
		}
		odds, p = append(odds, float64(logOdds(l, 2))), append(p, math.Exp(float64(l[2]))/sum)
	}
	for i := range p {
		if want := math.Log(p[i] / (1 - p[i])); math.Abs(odds[i]-want) > 1e-5 {
			t.Errorf("odds %v, expected %v", odds[i], want)
		}
	}
	if a, b := logOdds([]float32{0, 200}, 1), logOdds([]float32{0, 300}, 1); a >= b {
		t.Errorf("odds %v and %v of growing logits", a, b)
	}
	for class, want := range map[int]float64{0: -2000 - math.Ln2, 1: 0} { // far apart: exponentials of the differences have no number
		if got := float64(logOdds([]float32{0, 2000, 2000}, class)); math.Abs(got-want) > 1e-3 {
			t.Errorf("odds %v of class %d, expected %v", got, class, want)
		}
	}
	if !slices.Equal([]float32{logOdds([]float32{1, 1}, 0)}, []float32{0}) {
		t.Error("equal logits of two classes have odds other than 0")
	}
}

// TestLikeScikitLearn compares areas, precision, accuracy and F1 with those of scikit-learn (testdata/metrics.py).
func TestLikeScikitLearn(t *testing.T) {
	b, err := os.ReadFile("testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Cases []struct {
			Name             string
			Classes          int
			Labels           []int32
			Logits           []float32
			AUC              float64
			AveragePrecision float64 `json:"average_precision"`
			Accuracy         float64
			Balanced         float64 `json:"balanced_accuracy"`
			F1Macro          float64 `json:"f1_macro"`
			F1Micro          float64 `json:"f1_micro"`
		}
	}
	if err := json.Unmarshal(b, &want); err != nil || len(want.Cases) < 6 {
		t.Fatalf("%d cases, %v", len(want.Cases), err)
	}
	for _, c := range want.Cases {
		t.Run(c.Name, func(t *testing.T) {
			s, err := newScores(c.Classes, uint64(len(c.Labels)), nil, true, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer s.close()
			confusion := newConfusion(c.Classes)
			for lo := 0; lo < len(c.Labels); lo += 50 { // as chunks come
				hi := min(lo+50, len(c.Labels))
				if err := s.add(c.Logits[lo*c.Classes:hi*c.Classes], c.Labels[lo:hi]); err != nil {
					t.Fatal(err)
				}
			}
			for i, l := range c.Labels {
				confusion.Counts[int(l)*c.Classes+int(likeliest(c.Logits[i*c.Classes:(i+1)*c.Classes]))]++
			}
			auc, precision, err := s.areas(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			macro, micro := confusion.F1()
			for _, x := range []struct {
				what      string
				got, want float64
			}{{"area", auc, c.AUC}, {"average precision", precision, c.AveragePrecision}, {"macro F1", macro, c.F1Macro}, {"micro F1", micro, c.F1Micro},
				{"balanced accuracy", confusion.BalancedAccuracy(), c.Balanced}, {"accuracy", float64(confusion.Correct()) / float64(len(c.Labels)), c.Accuracy}} {
				if math.Abs(x.got-x.want) > 1e-12 {
					t.Errorf("%s %v, by scikit-learn %v", x.what, x.got, x.want)
				}
			}
		})
	}
}
