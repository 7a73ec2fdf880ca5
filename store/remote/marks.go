package remote

import (
	"slices"
	"time"

	"github.com/gstore/gstore/store"
)

// Mark tells a version, or a run, from another one of its number.
type Mark struct {
	Number uint64    `json:"number"`
	Time   time.Time `json:"time"`
}

// marks are the versions and runs of a store, or of a snapshot.
type marks struct{ versions, runs []Mark }

func marksOf(h *store.History) (m marks) {
	for _, v := range h.Versions {
		m.versions = append(m.versions, Mark{v.Version, v.Created})
	}
	for _, r := range h.Runs {
		m.runs = append(m.runs, Mark{r.Number, r.Started})
	}
	return m
}

func (s *Snapshot) marks() marks { return marks{s.Versions, s.Runs} }

// lack is a version or a run that is not elsewhere.
type lack struct {
	what  string
	mark  Mark
	other *Mark // of its number, which is there instead; nil = none
}

// lackIn returns what of m the other has not; nil if it has all, but for runs that were dropped.
func (m marks) lackIn(other marks, dropped []uint64) *lack {
	for _, kind := range []struct {
		what     string
		of, have []Mark
	}{{"version", m.versions, other.versions}, {"run", m.runs, other.runs}} {
		for _, x := range kind.of {
			at := slices.IndexFunc(kind.have, func(y Mark) bool { return y.Number == x.Number })
			switch {
			case at >= 0 && kind.have[at].Time.Equal(x.Time), kind.what == "run" && slices.Contains(dropped, x.Number):
			case at >= 0:
				return &lack{kind.what, x, &kind.have[at]}
			default:
				return &lack{kind.what, x, nil}
			}
		}
	}
	return nil
}
