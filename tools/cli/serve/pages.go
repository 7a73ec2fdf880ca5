package serve

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/webpage"
)

//go:embed pages
var pageFiles embed.FS

// Paths of pages.
const (
	pathPage     = "/{$}"
	pathRuns     = "/runs"
	pathRun      = "/runs/{run}"
	pathFeatures = "/features"
	pathMistakes = "/mistakes"
	pathMap      = "/map"
)

// page is a page for people: a template with its data, and the status that it is sent with.
type page struct {
	template string
	data     any
	status   int // 0: OK
}

// pager makes a page from a state.
type pager func(ctx context.Context, x *state, r *http.Request) (page, error)

// pagers are the pages, by their paths.
func (s *server) pagers() map[string]pager {
	return map[string]pager{pathPage: s.storePage, pathRuns: s.runsPage, pathRun: s.runPage, pathFeatures: s.featuresPage, pathMistakes: s.mistakesPage,
		pathMap: s.mapPage}
}

var pageTemplates = sync.OnceValue(parsePages)

func parsePages() map[string]*template.Template {
	files, err := pageFiles.ReadDir("pages")
	if err != nil {
		panic(err)
	}
	all := map[string]*template.Template{}
	for _, f := range files {
		text, err := pageFiles.ReadFile("pages/" + f.Name())
		if err != nil {
			panic(err)
		}
		all[f.Name()] = webpage.New(f.Name(), string(text))()
	}
	return all
}

// problemPage is what a page shows instead of what was asked for.
type problemPage struct {
	webpage.Head
	Problem string
}

// paging answers with a page, within time.
func (s *server) paging(make pager) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), s.o.timeout)
		defer cancel()
		answer, err := s.answer(ctx, func(ctx context.Context, x *state, r *http.Request) (any, error) {
			p, err := make(ctx, x, r)
			if errors.Is(err, store.ErrSwept) {
				return nil, err
			}
			if err != nil {
				status, said := s.verdict(r, err)
				p = page{"problem.html", problemPage{s.head(x, "", "not shown"), said.Message}, status}
			}
			var b bytes.Buffer
			err = pageTemplates()[p.template].Execute(&b, p.data)
			return rendered{b.Bytes(), cmp.Or(p.status, http.StatusOK)}, err
		}, r, nil)
		if err != nil {
			s.log.Error("page", "path", r.URL.Path, "error", err)
			fail(w, http.StatusInternalServerError, "failed", "the page could not be made; the server's log says why")
			return
		}
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		w.Header().Set("Referrer-Policy", "no-referrer")
		of := answer.(rendered)
		send(w, of.status, "text/html; charset=utf-8", of.page)
	})
}

// rendered is a page as it is sent.
type rendered struct {
	page   []byte
	status int
}

// head is the top of a page, with links to those that have something to show.
func (s *server) head(x *state, here, title string) webpage.Head {
	m := x.st.Manifest()
	edges := "edges"
	if m.Schema.Undirected {
		edges = "undirected edges"
	}
	name := filepath.Base(s.dir)
	h := webpage.Head{Title: title + " · " + name, Name: name, Home: "/",
		Note: fmt.Sprintf("version %d · %s nodes · %s %s", m.Version, webpage.Count(m.Nodes), webpage.Count(m.Edges), edges)}
	add := func(name, to string, there bool) {
		if there {
			h.Links = append(h.Links, webpage.Link{Name: name, To: to, Here: to == here})
		}
	}
	nodes, _ := modelOf[*nodeModel](x, "")
	add("Store", "/", true)
	add("Features", pathFeatures, len(m.ColumnsOf(store.RoleFeature)) > 0)
	add("Runs", pathRuns, true)
	add("Mistakes", pathMistakes, nodes != nil && nodes.hasClasses())
	links, _ := modelOf[*linkModel](x, "")
	add("Map", pathMap, nodes != nil && nodes.hasClasses() || links != nil)
	return h
}

// bar is a quantity beside others of its kind: Share is of the largest.
type bar struct {
	Name  string
	Value float64
	Share float64
	Minus bool
	Link  string
}

// scale makes shares of the largest.
func scale(list []bar) {
	most := 0.
	for _, b := range list {
		most = max(most, math.Abs(b.Value))
	}
	for i := range list {
		if list[i].Minus = list[i].Value < 0; most > 0 {
			list[i].Share = 100 * math.Abs(list[i].Value) / most
		}
	}
}

// storePage is what the first page shows: the store, and with ?id=… a node.
type storePage struct {
	webpage.Head
	Store    storeAnswer
	Types    []bar
	Rels     []bar
	Columns  []columnAnswer
	Asked    string
	Problem  string
	Node     *pageNode
	Overview *overviewOnPage
}

// storePage answers GET /.
func (s *server) storePage(ctx context.Context, x *state, r *http.Request) (page, error) {
	a, err := s.describe(ctx, x, r)
	if err != nil {
		return page{}, err
	}
	d := storePage{Store: a.(storeAnswer), Asked: r.URL.Query().Get("id")}
	p := page{template: "store.html"}
	title := "store"
	if d.Asked != "" {
		title = d.Asked
		if d.Node, err = s.nodeForPage(ctx, x, d.Asked); err != nil {
			status, said := s.verdict(r, err)
			d.Problem, p.status = said.Message, status
		}
	}
	d.Head = s.head(x, "/", title)
	for _, t := range d.Store.NodeTypes {
		d.Types = append(d.Types, bar{Name: t.Name, Value: float64(t.Nodes)})
	}
	for _, t := range d.Store.Relations {
		d.Rels = append(d.Rels, bar{Name: t.Name, Value: float64(t.Edges)})
	}
	for _, c := range d.Store.Columns {
		if c.Name != store.TypeColumn && !strings.HasSuffix(c.Name, store.NodeSuffix) {
			d.Columns = append(d.Columns, c)
		}
	}
	slices.SortStableFunc(d.Types, func(a, b bar) int { return cmp.Compare(b.Value, a.Value) })
	slices.SortStableFunc(d.Rels, func(a, b bar) int { return cmp.Compare(b.Value, a.Value) })
	scale(d.Types)
	scale(d.Rels)
	if d.Node == nil {
		if d.Overview, err = s.overviewOnPage(ctx, x); err != nil {
			return page{}, err
		}
	}
	p.data = d
	return p, nil
}
