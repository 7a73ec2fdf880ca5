package zoo

import (
	"reflect"
	"testing"
)

// TestCover: every pair that the rules allow occurs, none that they forbid does, and the same seed gives the same cases.
func TestCover(t *testing.T) {
	cases, missed := Cover(Axes, Rules, 1)
	t.Logf("%d cases, %d pairs that no case can have", len(cases), missed)
	for _, c := range cases {
		if !Allowed(c, Rules) {
			t.Fatalf("%s is forbidden", c)
		}
		if again, err := ParseCase(c.String()); err != nil || again.String() != c.String() {
			t.Fatalf("%s reads as %s, %v", c, again, err)
		}
	}
	unmet := 0
	for i, a := range Axes {
		for _, b := range Axes[i+1:] {
			for _, x := range a.Values {
				for _, y := range b.Values {
					met := false
					for _, c := range cases {
						met = met || c.Is(a.Name, x) && c.Is(b.Name, y)
					}
					forbidden := false
					for _, r := range Rules {
						forbidden = forbidden || r.A == a.Name && r.B == b.Name && r.Forbid(x, y) || r.A == b.Name && r.B == a.Name && r.Forbid(y, x)
					}
					if met && forbidden {
						t.Fatalf("%s=%s and %s=%s occur, and are forbidden", a.Name, x, b.Name, y)
					}
					if !met && !forbidden {
						unmet++
					}
				}
			}
		}
	}
	if unmet != missed {
		t.Errorf("%d pairs do not occur, expected the %d that other axes forbid", unmet, missed)
	}
	if again, _ := Cover(Axes, Rules, 1); !reflect.DeepEqual(again, cases) {
		t.Error("the same seed gives other cases")
	}
}
