package serve

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/runs"
	"github.com/gstore/gstore/tools/webpage"
)

// surveyPage is what the pages of mistakes and the map show of a survey.
type surveyPage struct {
	webpage.Head
	Model string
	Asked int64 // of how many while it is made
	Of    int64
	What  string
	Right float64

	Matrix   template.HTML
	Mistakes []mistakeOnPage
	Chosen   string // the label and the class that were asked for
	More     int
	Map      template.HTML
}

// mistakeOnPage is a node of which a model says another class than its label.
type mistakeOnPage struct {
	Name         any
	Link         string
	Label, Class string
	Probability  float64
}

// listedMistakes is how many a page lists.
const listedMistakes = 60

// survey begins a page of a survey; v is nil while it is made.
func (s *server) survey(ctx context.Context, x *state, r *http.Request, here, title string) (d surveyPage, m *nodeModel, v *survey, err error) {
	if m, err = modelOf[*nodeModel](x, r.URL.Query().Get("model")); err != nil {
		return d, nil, nil, err
	}
	if !m.hasClasses() {
		return d, nil, nil, fmt.Errorf("%w: the model says no classes of nodes", store.ErrNotFound)
	}
	d = surveyPage{Head: s.head(x, here, title), Model: m.info.Which}
	if v, err = s.surveyOf(ctx, x, &m.survey, func(ctx context.Context) error { return m.survey.ask(ctx, s, x, m) }); err != nil {
		return d, nil, nil, err
	}
	if v == nil {
		d.Head.Reload, d.Asked, d.Of = reloadSurvey, m.survey.asked.Load(), m.survey.of.Load()
		return d, m, nil, nil
	}
	d.What = v.what()
	right := 0
	for i := range v.nodes {
		if v.nodes[i].label == v.nodes[i].class {
			right++
		}
	}
	if len(v.nodes) > 0 {
		d.Right = float64(right) / float64(len(v.nodes))
	}
	return d, m, v, nil
}

// mistakesPage answers GET /mistakes, of ?label=…&class=… those alone that are of the one and are taken for the other.
func (s *server) mistakesPage(ctx context.Context, x *state, r *http.Request) (page, error) {
	d, m, v, err := s.survey(ctx, x, r, pathMistakes, "mistakes")
	if err != nil || v == nil {
		return page{template: "mistakes.html", data: d}, err
	}
	name := func(c int) string { return fmt.Sprint(m.className(c)) }
	label, class := r.URL.Query().Get("label"), r.URL.Query().Get("class")
	if label != "" || class != "" {
		d.Chosen = fmt.Sprintf("%s taken for %s", cmp.Or(label, "any class"), cmp.Or(class, "another"))
	}
	rows := make([]metrics.ConfusionRow, m.cp.Model.Out)
	for c := range rows {
		rows[c] = metrics.ConfusionRow{Label: name(c), Predicted: map[string]int64{}}
	}
	for _, one := range v.nodes {
		rows[one.label].Predicted[name(one.class)]++
		if label != "" && name(one.label) != label || class != "" && name(one.class) != class || one.label == one.class && (label == "" || class == "") {
			continue
		}
		d.Mistakes = append(d.Mistakes, mistakeOnPage{one.name, "/?id=" + url.QueryEscape(fmt.Sprint(one.name)), name(one.label), name(one.class), float64(one.probability)})
	}
	slices.SortStableFunc(d.Mistakes, func(a, b mistakeOnPage) int { return cmp.Compare(b.Probability, a.Probability) })
	if n := len(d.Mistakes) - listedMistakes; n > 0 {
		d.More, d.Mistakes = n, d.Mistakes[:listedMistakes]
	}
	d.Matrix = runs.Confusion(rows, func(label, class string) string {
		return pathMistakes + "?" + url.Values{"label": {label}, "class": {class}}.Encode()
	})
	return page{template: "mistakes.html", data: d}, nil
}
