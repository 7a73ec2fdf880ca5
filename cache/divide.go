package cache

// Workload is what a run reads of features and adjacency lists, by row, as counted over presampled epochs.
type Workload struct {
	RowBytes   int64    // of a row's features
	Visits     []uint32 // times that a row's features are gathered
	ListBytes  []uint32 // what a row's adjacency list takes; nil: lists are sampled from elsewhere
	ListReads  []uint32 // bytes that sampling reads of it
	ListFactor float64  // what a byte of a list costs, read across the bus, beside one of features; 0: 1
}

// Division is room divided between two caches.
type Division struct {
	Features   []uint32 // rows whose features are kept, ascending
	Lists      []uint32 // rows whose adjacency lists are kept, ascending
	RoomBytes  [2]int64 // that they take: features, lists
	SavedBytes [2]int64 // that are not read across the bus: of features, of lists
}

// benefit of both together, in bytes of features.
func (d *Division) benefit(w *Workload) float64 {
	return float64(d.SavedBytes[0]) + w.factor()*float64(d.SavedBytes[1])
}

func (w *Workload) factor() float64 {
	if w.ListFactor == 0 {
		return 1
	}
	return w.ListFactor
}

// density of a row's features: bytes saved for a byte of room.
func (w *Workload) feature(r int) float64 { return float64(w.Visits[r]) }

// density of a row's list.
func (w *Workload) list(r int) float64 {
	if w.ListBytes[r] == 0 {
		return 0
	}
	return w.factor() * float64(w.ListReads[r]) / float64(w.ListBytes[r])
}

// Divide divides room between features and adjacency lists as DUCATI's allocator does (survey of GNN training systems,
// section VII-B): whatever saves most for a byte of room is kept, of either kind, until the room is full. Where one cache
// alone saves as much, it is one cache.
func Divide(room int64, w Workload) Division {
	best := w.fill(room, true, false)
	if w.ListBytes == nil {
		return best
	}
	for _, d := range []Division{w.fill(room, false, true), w.fill(room, true, true)} {
		if d.benefit(&w) > best.benefit(&w) {
			best = d
		}
	}
	return best
}

// fill keeps what is at least as dense as the least density for which there is room, and of those that are just
// below it the first rows.
func (w *Workload) fill(room int64, features, lists bool) (d Division) {
	low, high := 0.0, 1.0
	for w.above(high, features, lists) > room {
		high *= 2
	}
	for range 24 { // bytes above high fit, those above low do not, unless all do
		if mid := (low + high) / 2; w.above(mid, features, lists) > room {
			low = mid
		} else {
			high = mid
		}
	}
	left := room
	keep := func(density float64, bytes int64, first bool) bool {
		if bytes == 0 || density <= 0 || bytes > left || first != (density > high) || density <= low {
			return false
		}
		left -= bytes
		return true
	}
	featured, listed := make([]bool, len(w.Visits)), make([]bool, len(w.ListBytes))
	for _, first := range []bool{true, false} { // those above the threshold, then those at it
		for r := range w.Visits {
			if features && keep(w.feature(r), w.RowBytes, first) {
				featured[r] = true
			}
			if lists && keep(w.list(r), int64(w.ListBytes[r]), first) {
				listed[r] = true
			}
		}
	}
	for r := range w.Visits {
		if featured[r] {
			d.Features = append(d.Features, uint32(r))
			d.RoomBytes[0] += w.RowBytes
			d.SavedBytes[0] += int64(w.Visits[r]) * w.RowBytes
		}
		if lists && listed[r] {
			d.Lists = append(d.Lists, uint32(r))
			d.RoomBytes[1] += int64(w.ListBytes[r])
			d.SavedBytes[1] += int64(w.ListReads[r])
		}
	}
	return d
}

// above is the room that everything denser than a threshold takes.
func (w *Workload) above(density float64, features, lists bool) (n int64) {
	for r := range w.Visits {
		if features && w.feature(r) > density {
			n += w.RowBytes
		}
		if lists && w.list(r) > density {
			n += int64(w.ListBytes[r])
		}
	}
	return n
}
