// Package webpage is what gstore's pages look like: their style, light and dark, and their charts. A page is one HTML
// document that needs neither a script nor a network: charts are SVG that stretches to the width there is, with their
// names and numbers as HTML beside it, which keeps its size; colors come from the style.
package webpage

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"sync"
)

//go:embed style.css
var style string

//go:embed parts.html
var parts string

// Colors is how many series are told apart by color. They are told apart in any kind of sight (Okabe and Ito).
const Colors = 7

// Head is what the top of a page shows; its template is "head", and "foot" ends what it begins.
type Head struct {
	Title string // of the window
	Name  string // the headline, which leads to Home
	Home  string // "": the headline leads nowhere
	Note  string // beside the headline
	Links []Link // to the other pages
	// Seconds between loads of a page that shows what is going on; 0: it is loaded once.
	Reload int
}

// Link leads to a page; Here is the one that is shown.
type Link struct {
	Name, To string
	Here     bool
}

// New is a page's template, which may use the parts "head" and "foot" with a [Head], and [Funcs]. It is parsed when it is first asked for:
// most commands show no page, and keep to a budget.
func New(name, text string) func() *template.Template {
	return sync.OnceValue(func() *template.Template {
		t := template.Must(template.New("parts").Funcs(Funcs()).Parse(parts))
		return template.Must(t.New(name).Parse(text))
	})
}

// Funcs are the functions of templates.
func Funcs() template.FuncMap {
	return template.FuncMap{"count": Count, "percent": percent, "signed": signed, "at": at, "style": func() template.CSS { return template.CSS(style) }} //nolint:gosec // our own
}

// Count is a number with its thousands apart.
func Count(n any) string {
	text := fmt.Sprint(n)
	if f, ok := n.(float64); ok {
		text = fmt.Sprintf("%.0f", f)
	}
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "\u202f" + text[at:]
	}
	return text
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

func signed(v float64) string { return fmt.Sprintf("%+.4f", v) }

// at is a coordinate in SVG or CSS.
func at(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }

// execute renders a part of a page from data that is ours.
func execute(name string, data any) template.HTML {
	var b strings.Builder
	if err := charts().ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // a mistake in the template
	}
	return template.HTML(b.String()) //nolint:gosec // escaped by the template
}

var charts = New("charts", "")
