package inspect

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer/metrics"
	"github.com/gstore/gstore/tools/cli/command"
	"github.com/gstore/gstore/tools/cli/runs"
	"github.com/gstore/gstore/tools/webpage"
)

//go:embed report.html
var reportText string

var reportTemplate = webpage.New("report", reportText)

type reportOptions struct {
	output string
	title  string
	runs   []uint
}

// NewReport is the command gstore report.
func NewReport(e *command.Env) *cobra.Command {
	var o reportOptions
	cmd := &cobra.Command{
		Use:   "report STORE|FILE...",
		Short: "Draw a run's metrics: loss and accuracy, the confusion matrix, bandwidth, who waited for whom; or several runs beside each other",
		Long: `Report draws one HTML page of training runs, which needs neither a network nor a script:
those of a store, of which "gstore train" keeps measurements beside the models
(STORE/runs), or those whose measurements are in the files of "gstore train --metrics".

Of one run the page shows first how good it is: what it came to, the curves of accuracy
and loss, what the best model takes for what. Then it shows how fast it was: where the time
went, what was read, which partitions were in memory in each step, and who waited.

Of several runs it shows a table of their results with the settings by which they differ,
and the curves of validation and loss, over epochs and over seconds.

"gstore serve" shows the same of a store, while it is trained too.`,
		Example: "  gstore report STORE -o report.html\n  gstore report STORE --run 3 -o run3.html\n  gstore report wide.jsonl narrow.jsonl -o compared.html",
		Args:    command.SomeArgs("STORE|FILE..."),
		RunE:    func(_ *cobra.Command, args []string) error { return runReport(e, args, o) },
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "report.html", "the page to write")
	cmd.Flags().StringVar(&o.title, "title", "", "headline (default: the file's name, or how many runs there are)")
	cmd.Flags().UintSliceVar(&o.runs, "run", nil, "of a store's runs only these, by their numbers")
	return cmd
}

func runReport(e *command.Env, given []string, o reportOptions) error {
	paths, err := reported(given, o.runs)
	if err != nil {
		return err
	}
	files := make([]*metrics.File, len(paths))
	fields := map[string]any{"output": o.output}
	var epochs, steps, samples int
	for i, path := range paths {
		m, err := runs.Read(path)
		if err != nil {
			return err
		}
		files[i] = m
		epochs, steps, samples = epochs+max(len(m.Epochs), len(m.Results)), steps+len(m.Steps), samples+len(m.Samples)
	}
	list := runs.Named(files, paths)
	d := reportData{Head: webpage.Head{Name: cmp.Or(o.title, list[0].Name)}}
	if len(list) > 1 {
		fields["runs"] = len(list)
		d.Name, d.Body = cmp.Or(o.title, fmt.Sprintf("%d runs", len(list))), runs.Several(list)
	} else {
		d.Body = runs.One(files[0])
		if b := files[0].Begin; b != nil {
			d.Note = "trained on " + b.Store
		}
	}
	d.Title = d.Name
	var page bytes.Buffer
	if err := reportTemplate().Execute(&page, d); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	to, err := command.NewFile(o.output)
	if err != nil {
		return err
	}
	_, err = to.Write(page.Bytes())
	if err := to.Finish(err); err != nil {
		return err
	}
	fields["epochs"], fields["steps"], fields["samples"] = epochs, steps, samples
	e.Event("summary", fields)
	if e.JSON {
		return nil
	}
	several := ""
	if len(paths) > 1 {
		several = fmt.Sprintf("%d runs, ", len(paths))
	}
	fmt.Fprintf(e.Told(), "%s: %s%d epochs, %d steps\n", o.output, several, epochs, steps)
	return nil
}

// reportData is what the page shows.
type reportData struct {
	webpage.Head
	Body template.HTML
}

// reported are the files of what is to be drawn: those given, and of a store those of its runs.
func reported(given []string, only []uint) (paths []string, err error) {
	stores := 0
	for _, path := range given {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			paths = append(paths, path)
			continue
		}
		stores++
		if len(only) == 0 {
			found, _, err := runs.Files(path)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("%w: %s has no run whose measurements are kept: gstore train %s", store.ErrNotFound, path, path)
			}
			paths = append(paths, found...)
		}
		for _, n := range only {
			file := filepath.Join(path, store.RunsDir, store.MetricsFile(uint64(n)))
			if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("%w: measurements of run %d of %s (gstore versions %s lists its runs)", store.ErrNotFound, n, path, path)
			}
			paths = append(paths, file)
		}
	}
	if len(only) > 0 && stores == 0 {
		return nil, command.Usagef("--run is for a store's runs: name the store")
	}
	return paths, nil
}
