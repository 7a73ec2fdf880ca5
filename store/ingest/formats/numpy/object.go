package numpy

// Values of a pickle: int64, float64, bool, nil, string, []byte, []any (a tuple), *[Dict], *[List], *[Object], and
type (
	global     string // what is named, "module name"
	persistent []any  // a tuple that stands for what lies outside of the pickle
)

// List is a list or a set of a pickle.
type List struct{ Items []any }

// Dict is a dictionary of a pickle, in the order in which it was written.
type Dict struct{ Keys, Values []any }

// Get is the value of a key that is text; nil if there is none.
func (d *Dict) Get(key string) any {
	for i := len(d.Keys) - 1; i >= 0; i-- { // what was set last
		if d.Keys[i] == any(key) {
			return d.Values[i]
		}
	}
	return nil
}

// Object is what a pickle would make by calling a class or a function. Nothing is called.
type Object struct {
	Class string // "module name"
	Args  []any
	State any  // that it would be given then
	Items Dict // that would be put into it
}
