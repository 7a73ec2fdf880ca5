package serve

import (
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/runs"
	"github.com/gstore/gstore/tools/webpage"
)

// runsData is what the page of runs shows.
type runsData struct {
	webpage.Head
	Runs     []runOnPage
	Under    []runOnPage // those that are trained now, or were given up
	Compared template.HTML
	Body     template.HTML
	Waiting  bool // for a first epoch
}

// runOnPage is a line of the table of runs.
type runOnPage struct {
	runs.Told
	Name, Link    string
	Called        string // of one without a number
	Number        uint64
	Version       uint64
	Started       string
	Measured, Now bool
	Chosen        bool
}

// comparedRuns is how many runs are beside each other unless others are asked for.
const comparedRuns = webpage.Colors

// A file of measurements of a run that is trained now was written to lately; the page of such runs is loaded again and again.
const (
	lately     = 2 * time.Minute
	reloadRuns = 5 // seconds
)

// Files of measurements that are larger are not shown: gstore report draws them. An epoch's line takes memoryPerByte as often in memory.
const (
	mostMeasured  = 16 << 20
	memoryPerByte = 2
)

// measurements reads a run's.
func (s *server) measurements(ctx context.Context, name string) (r runs.Run, err error) {
	path := filepath.Join(s.dir, store.RunsDir, name+store.MetricsExtension)
	info, err := os.Stat(path)
	if err != nil {
		return r, fmt.Errorf("%w: measurements of run %s", store.ErrNotFound, name)
	}
	if info.Size() > mostMeasured {
		return r, badf("the measurements of run %s take %d MiB: gstore report %s draws them", name, info.Size()>>20, path)
	}
	done, err := s.answers.carry(ctx, memoryPerByte*info.Size())
	if err != nil {
		return r, err
	}
	defer done()
	m, err := runs.Read(path)
	return runs.Run{File: m, Name: runs.Called(name), Link: template.URL(pathRuns + "/" + name)}, err //nolint:gosec // a name of safe letters
}

// safeName are the names of runs: numbers, and those of runs that have none yet.
var safeName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// underWay are the runs that have no number: trained now, or given up.
func (s *server) underWay() (list []runOnPage) {
	_, paths, _ := runs.Files(s.dir)
	for _, p := range paths {
		name := strings.TrimSuffix(filepath.Base(p), store.MetricsExtension)
		if info, err := os.Stat(p); err == nil && safeName.MatchString(name) {
			list = append(list, runOnPage{Name: name, Called: runs.Called(name), Link: pathRuns + "/" + name, Measured: true, Now: time.Since(info.ModTime()) < lately,
				Started: info.ModTime().UTC().Format("2006-01-02 15:04:05")})
		}
	}
	return list
}

// runsPage answers GET /runs, of ?run=… those beside each other.
func (s *server) runsPage(ctx context.Context, x *state, r *http.Request) (page, error) {
	h, err := store.ReadHistory(ctx, s.dir, store.Options{})
	if err != nil {
		return page{}, err
	}
	d := runsData{Head: s.head(x, pathRuns, "runs"), Under: s.underWay()}
	asked := r.URL.Query()["run"]
	var compare []string
	for _, u := range d.Under {
		if u.Now {
			d.Reload = reloadRuns
			compare = append(compare, u.Name)
		}
	}
	for _, of := range slices.Backward(h.Runs) {
		t := runs.Tell(of)
		if t.Model == "" {
			continue
		}
		name := strconv.FormatUint(of.Number, 10)
		one := runOnPage{Told: t, Name: runs.Called(name), Number: of.Number, Version: of.Version, Started: of.Started.UTC().Format("2006-01-02 15:04")}
		if _, err := os.Stat(filepath.Join(s.dir, store.RunsDir, store.MetricsFile(of.Number))); err == nil {
			one.Measured, one.Link = true, pathRuns+"/"+name
			if one.Chosen = len(asked) == 0 && len(compare) < comparedRuns || slices.Contains(asked, name); one.Chosen {
				compare = append(compare, name)
			}
		}
		d.Runs = append(d.Runs, one)
	}
	var list []runs.Run
	for _, name := range compare[:min(len(compare), comparedRuns)] {
		run, err := s.measurements(ctx, name)
		var bad *badRequest
		switch {
		case errors.Is(err, runs.ErrNone), errors.Is(err, store.ErrNotFound), errors.As(err, &bad):
			continue // it has ended no epoch, is gone meanwhile, or too large
		case err != nil:
			return page{}, err
		}
		run.Steps, run.Samples = nil, nil
		list = append(list, run)
	}
	if len(list) > 0 {
		slices.Reverse(list)
		d.Compared = runs.Several(list)
	}
	return page{template: "runs.html", data: d}, nil
}

// runPage answers GET /runs/NAME.
func (s *server) runPage(ctx context.Context, x *state, r *http.Request) (page, error) {
	name := r.PathValue("run")
	if !safeName.MatchString(name) {
		return page{}, fmt.Errorf("%w: run %q", store.ErrNotFound, name)
	}
	d := runsData{Head: s.head(x, pathRuns, runs.Called(name))}
	for _, u := range s.underWay() {
		if u.Name == name && u.Now {
			d.Reload = reloadRuns
		}
	}
	run, err := s.measurements(ctx, name)
	if errors.Is(err, runs.ErrNone) {
		d.Waiting = true
		return page{template: "run.html", data: d}, nil
	}
	if err != nil {
		return page{}, err
	}
	d.Runs, d.Body = []runOnPage{{Name: run.Name, Now: d.Reload > 0}}, runs.One(run.File)
	return page{template: "run.html", data: d}, nil
}
