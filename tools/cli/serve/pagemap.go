package serve

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/gstore/gstore/tools/webpage"
)

// mapPage answers GET /map: nodes by what a model says of them, or by their vectors.
func (s *server) mapPage(ctx context.Context, x *state, r *http.Request) (page, error) {
	if m, err := modelOf[*linkModel](x, r.URL.Query().Get("model")); err == nil {
		return s.vectorsPage(ctx, x, r, m)
	}
	d, m, v, err := s.survey(ctx, x, r, pathMap, "map")
	if err != nil || v == nil {
		return page{template: "map.html", data: d}, err
	}
	d.Map = v.draw(webpage.Dots{Title: "Where the model sees nodes: those of which it says the like lie together",
		Note: "Colors are labels. Both directions are those in which what the model says varies most (the principal components of its log-probabilities).", Says: d.What},
		func(c int) string { return fmt.Sprint(m.className(c)) }).HTML()
	return page{template: "map.html", data: d}, nil
}

// vectorsPage is the map of a model of links.
func (s *server) vectorsPage(ctx context.Context, x *state, r *http.Request, m *linkModel) (page, error) {
	d := surveyPage{Head: s.head(x, pathMap, "map"), Model: m.info.Which}
	v, err := s.surveyOf(ctx, x, &m.survey, func(ctx context.Context) error { return m.survey.read(ctx, s, x, m) })
	if err != nil {
		return page{}, err
	}
	if v == nil {
		d.Head.Reload = reloadSurvey
		return page{template: "map.html", data: d}, nil
	}
	d.What = v.what()
	dots := webpage.Dots{Title: "Nodes by their vectors: those that are alike lie together", Says: d.What,
		Note: "Both directions are those in which the vectors vary most (their principal components)."}
	types := x.st.Manifest().Schema.NodeTypes
	if len(types) > 1 {
		dots.Note = "Colors are types. " + dots.Note
	}
	d.Map = v.draw(dots, func(t int) string { return types[t].Name }).HTML()
	return page{template: "map.html", data: d}, nil
}

// draw puts the nodes of a survey on a map, colored by their labels, the most frequent ones each by its own.
func (v *survey) draw(dots webpage.Dots, name func(label int) string) webpage.Dots {
	counts := map[int]int{}
	for _, one := range v.nodes {
		counts[one.label]++
	}
	order := make([]int, 0, len(counts))
	for c := range counts {
		order = append(order, c)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	class := map[int]string{}
	for i, c := range order {
		switch {
		case i < webpage.Colors:
			class[c] = fmt.Sprintf("c%d", i)
			dots.Legend = append(dots.Legend, webpage.Key{Class: class[c], Name: name(c)})
		case i == webpage.Colors:
			dots.Legend = append(dots.Legend, webpage.Key{Class: "other", Name: "others"})
		}
	}
	if len(order) == 1 {
		dots.Legend = nil
	}
	for _, one := range v.nodes {
		title := fmt.Sprintf("%v: %s", one.name, name(one.label))
		if v.ofLabels && one.class != one.label {
			title += ", taken for " + name(one.class)
		}
		dots.Dots = append(dots.Dots, webpage.Dot{X: one.at[0], Y: one.at[1], Class: cmp.Or(class[one.label], "other"), Title: title, Link: "/?id=" + url.QueryEscape(fmt.Sprint(one.name))})
	}
	return dots
}
