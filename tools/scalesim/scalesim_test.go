package main

import (
	"math"
	"strings"
	"testing"
)

// plain is a machine whose ways cost nothing but bytes.
func plain() *machine {
	return &machine{cores: 2, memory: 1 << 30, disk: way{100, 0, 1}, diskWrites: 100, server: way{10, 0, 1}, network: way{10, 0, 1}}
}

// TestReplayOverlaps: the next step is read while one is trained, no earlier; a pass over the store alone neither waits nor is waited for.
func TestReplayOverlaps(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		want  float64
	}{
		"one step is read, then trained":      {[]step{{read: 100, compute: 3}}, 4},
		"reads hide behind training":          {[]step{{read: 100, compute: 3}, {read: 100, compute: 3}}, 7},
		"training hides behind reads":         {[]step{{read: 300, compute: 1}, {read: 300, compute: 1}, {read: 300, compute: 1}}, 10},
		"one buffer ahead, not two":           {[]step{{read: 100, compute: 10}, {read: 100, compute: 1}, {read: 1000, compute: 1}}, 1 + 10 + 10 + 1},
		"what is not here comes from afar":    {[]step{{read: 100, served: 100, compute: 1}}, 11},
		"what is written delays what is read": {[]step{{compute: 1}, {read: 100, written: 100, compute: 1}, {compute: 1}}, 4},
		"a pass reads while it computes":      {[]step{{read: 500, compute: 3, alone: true}, {read: 100, compute: 1}}, 7},
	} {
		if got := replay(plain(), c.steps).seconds; math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %g s, expected %g", name, got, c.want)
		}
	}
}

// TestTogetherSumsGradients: ranks wait for the slowest, and for the ring at every mini-batch.
func TestTogetherSumsGradients(t *testing.T) {
	m := plain()
	got := together([]timeline{{seconds: 5, read: 1}, {seconds: 7, read: 2}}, m, 10, 20)
	if want := 7 + 10*(2./2*20/10); got.seconds != want || got.read != 3 {
		t.Errorf("%+v, expected %g s and 3 bytes", got, want)
	}
	if one := together([]timeline{{seconds: 5}}, m, 10, 20); one.seconds != 5 {
		t.Errorf("one rank alone takes %g s", one.seconds)
	}
}

// TestReadPlan: steps of the first epoch, and windows of rows.
func TestReadPlan(t *testing.T) {
	p, err := readPlan([]byte(`{"event":"step","epoch":1,"bytes_read":10,"requests":2,"examples":5,"loads":1,"resident":[1,2]}
{"event":"step","epoch":1,"bytes_read":20,"requests":2,"examples":5,"loads":1,"resident":[2,3]}
{"event":"step","epoch":2,"bytes_read":99,"requests":2,"examples":5}
{"event":"summary","plan":"hanoi"}
`))
	if err != nil || len(p.steps) != 2 || p.steps[1].read != 20 || p.plan != "hanoi" {
		t.Errorf("%+v, %v", p, err)
	}
	p.all, p.perBatch = 100, 1
	e := checkedEpoch{address: true}
	if s := p.replayed(trainer{batch: 2}, e); s[0].served != 10 || s[1].served != 20 || s[0].compute != 10 {
		t.Errorf("from the server: %+v", s)
	}
	if p, err = readPlan([]byte(`{"event":"step","epoch":1,"bytes_read":130,"examples":6}
{"event":"summary","plan":"rows","rows":{"row_bytes":4,"window_rows":10,"used":25}}
`)); err != nil || p.rows == nil {
		t.Fatalf("rows: %+v, %v", p, err)
	}
	p.perBatch = 1
	s := p.replayed(trainer{batch: 1}, checkedEpoch{}) // three passes over columns of 10 bytes
	if len(s) != 4 || s[0].compute != 0 || s[3].compute != 2 || s[3].written != 0 {
		t.Errorf("windows: %+v", s)
	}
	if _, err := readPlan([]byte(`{"event":"summary"}`)); err == nil {
		t.Error("a plan without steps is read")
	}
}

// TestTables: every graph has its rows, more machines never take longer, and each graph fits the disks of those that train it.
func TestTables(t *testing.T) {
	var out strings.Builder
	m := node()
	if err := tables(&out, m); err != nil {
		t.Fatal(err)
	}
	for i := range graphs {
		g := &graphs[i]
		if !strings.Contains(out.String(), "\n"+g.name+":\n") || g.measured.batch <= 0 {
			t.Errorf("%s is not in the tables, or not measured", g.name)
		}
		best := math.Inf(1)
		for _, n := range machineCounts {
			if g.links && n > 1 {
				break
			}
			es, err := plans(g, m, n)
			if err != nil {
				t.Fatal(err)
			}
			least := math.Inf(1)
			for _, e := range es {
				least = min(least, e.next.seconds)
				if e.first.seconds < e.next.seconds || e.memory > m.memory || e.next.waiting > e.next.seconds {
					t.Errorf("%s by %d: %+v", g.name, n, e)
				}
			}
			if least > best*1.05 {
				t.Errorf("%s: %d machines take %g s, fewer took %g", g.name, n, least, best)
			}
			best = min(best, least)
		}
	}
}
