package webpage

import (
	"encoding/xml"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"testing"
)

// Ticks lie within the axis, at steps of 1, 2 or 5 times a power of ten, of a range of any size; of what counts, at integers.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		whole  bool
		want   string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"}, {1, 10, true, "2 4 6 8 10"}, {1, 2, true, "1 2"}, {83.2, 91.4, false, "84 86 88 90"}, {-.4, .6, false, "-0.4 -0.2 0.0 0.2 0.4 0.6"},
		{0, 2.5e6, false, "0 500k 1M 1.5M 2M 2.5M"}, {0, 3e-7, false, "0 5e-08 1e-07 1.5e-07 2e-07 2.5e-07 3e-07"}, {5, 5, false, "4.0 4.5 5.0 5.5 6.0"},
	} {
		var got []string
		for _, k := range around(c.lo, c.hi, false).ticks(c.whole) {
			if k.At < 0 || k.At > 100 {
				t.Errorf("%v to %v: a tick at %v %%", c.lo, c.hi, k.At)
			}
			got = append(got, k.Text)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%v to %v: %q, expected %q", c.lo, c.hi, got, c.want)
		}
	}
	for e := -12; e < 13; e++ {
		for _, f := range []float64{1, 1.7, 2, 3.3, 5, 9.9} {
			hi := f * math.Pow(10, float64(e))
			if n := len(around(0, hi, true).ticks(false)); n < 3 || n > 9 {
				t.Errorf("0 to %v has %d ticks", hi, n)
			}
		}
	}
}

// Charts are well-formed, whatever their texts and numbers are, and say what they show to those who do not see it.
func TestCharts(t *testing.T) {
	const bad = `<script>"'&`
	nan := []Point{{0, math.NaN()}, {1, math.Inf(1)}, {2, 3}}
	var long []Point
	for i := range 10_000 {
		long = append(long, Point{float64(i), float64(i % 7)})
	}
	for name, html := range map[string]template.HTML{
		"lines":     Lines{Title: bad, X: bad, Y: bad, Note: bad, Mark: 1.5, MarkName: bad, Series: []Series{{bad, 1, []Point{{1, 2}, {2, 1}, {50, 3}}}, {bad, 2, nan}, {bad, 3, nil}}}.HTML(),
		"long":      Lines{Title: "long", Series: []Series{{"", 0, long}}}.HTML(),
		"grid":      Grid{Title: bad, X: bad, Y: bad, Columns: 3, Rows: 2, Cells: []Cell{{0, 1, 2, Heat(5, 9), bad}}, Legend: []Key{{"kept", bad}}, Says: bad}.HTML(),
		"histogram": Histogram{Title: bad, X: bad, Y: bad, LogX: true, LogY: true, Bins: []Bin{{1, 2, 30}, {2, 4, 0}, {4, 8, 1}}}.HTML(),
		"dots":      Dots{Title: bad, Dots: []Dot{{1, 2, "c0", bad, "javascript:alert(1)"}, {1, 2, "c1", "b", "/?id=b"}}}.HTML(),
		"shares":    Shares{Title: bad, Parts: []Part{{bad, 1, 3, bad}, {"b", 2, 0, ""}}}.HTML(),
	} {
		if strings.Contains(string(html), "<script") || strings.Contains(string(html), `href="javascript`) || !strings.Contains(string(html), "<figure>") || strings.Contains(string(html), "NaN") {
			t.Errorf("%s: %s", name, html)
		}
		d := xml.NewDecoder(strings.NewReader(string(html)))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v in %s", name, err, html)
			}
		}
		if name == "long" && len(html) > 20_000 {
			t.Errorf("a long curve takes %d bytes", len(html))
		}
	}
	for _, html := range []template.HTML{Lines{}.HTML(), Histogram{}.HTML(), Dots{}.HTML(), Shares{}.HTML()} {
		if html != "" {
			t.Errorf("of nothing: %s", html)
		}
	}
	html := string(Lines{Title: "Loss", X: "epoch", Series: []Series{{"training", 0, []Point{{1, 2}, {2, 1}}}}}.HTML())
	for _, want := range []string{`aria-label="Loss: training from 2 to 1"`, "<title>epoch 2: training 1</title>", `d="M0 0L100 100"`} {
		if !strings.Contains(html, want) {
			t.Errorf("%s lacks %s", html, want)
		}
	}
}

func TestHeat(t *testing.T) {
	for _, c := range []struct {
		v, most float64
		want    string
	}{{0, 5, ""}, {1, 0, ""}, {1, 1, "heat8"}, {1, 64, "heat1"}, {1, 1e6, "heat1"}, {2.5e5, 1e6, "heat4"}, {1e6, 1e6, "heat8"}} {
		if got := Heat(c.v, c.most); got != c.want {
			t.Errorf("%v of %v is %q, expected %q", c.v, c.most, got, c.want)
		}
		if c.want != "" && !strings.Contains(style, "."+c.want+" ") {
			t.Errorf("the style lacks %s", c.want)
		}
	}
}

func TestCount(t *testing.T) {
	for v, want := range map[any]string{0: "0", 999: "999", 1000: "1\u202f000", -123456: "-123\u202f456", 1234567.4: "1\u202f234\u202f567"} {
		if got := Count(v); got != want {
			t.Errorf("%v: %q, expected %q", fmt.Sprint(v), got, want)
		}
	}
}
