package kernels

import "unsafe"

// gemmGeneric is the reference of every gemmKernel: 4 rows × 8 columns.
func gemmGeneric(g *gemmTile) {
	const nr = 8
	b := unsafe.Slice((*float32)(g.b), g.k*nr)
	for r := range g.rows {
		a := unsafe.Add(g.a, 4*r*g.rsa)
		c := (*[nr]float32)(unsafe.Add(g.c, 4*r*g.ldc))
		var s [nr]float32
		if g.load {
			s = *c
		}
		for l := range g.k {
			x := *(*float32)(unsafe.Add(a, 4*l*g.csa))
			row := (*[nr]float32)(b[l*nr:])
			for j, y := range row {
				s[j] += float32(x * y)
			}
		}
		if g.bias != nil {
			bias := (*[nr]float32)(g.bias)
			for j := range s {
				s[j] += bias[j]
			}
		}
		if g.relu {
			for j, v := range s {
				if v < 0 {
					s[j] = 0
				}
			}
		}
		*c = s
	}
}
