package webpage

import "html/template"

// Shares is a bar of parts that make a whole.
type Shares struct {
	Title, Note string
	Parts       []Part
}

// Part is a part of a whole, with how much it is as text.
type Part struct {
	Name  string
	Color int
	Value float64
	Text  string
}

// HTML draws the bar; it is empty where all parts are.
func (s Shares) HTML() template.HTML {
	total := 0.
	for _, p := range s.Parts {
		total += max(0, p.Value)
	}
	if total <= 0 {
		return ""
	}
	type drawn struct {
		Part
		Share float64
	}
	d := struct {
		Shares
		Drawn []drawn
	}{Shares: s}
	for _, p := range s.Parts {
		if p.Value > 0 {
			d.Drawn = append(d.Drawn, drawn{p, p.Value / total})
		}
	}
	return execute("shares", d)
}
