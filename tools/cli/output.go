package cli

import (
	"encoding/json"
	"maps"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// event prints {"event":name, …fields} as one line on stdout when --json is
// set, and does nothing otherwise.
func (e *env) event(name string, fields map[string]any) {
	if !e.json {
		return
	}
	line := map[string]any{"event": name}
	maps.Copy(line, fields)
	b, err := json.Marshal(line)
	if err != nil { // only unmarshalable field types get here: a programming error
		panic(err)
	}
	_, _ = e.stdout.Write(append(b, '\n'))
}

// terminal reports whether stderr is a terminal: where progress goes.
func (e *env) terminal() bool {
	f, ok := e.stderr.(*os.File)
	return ok && !e.quiet && !e.json && term.IsTerminal(int(f.Fd()))
}

// progress starts a bar of total units ("edges", "bytes", …) with rate and time left; it
// shows only on a terminal. total −1 means unknown.
func (e *env) progress(total int64, what string) *progressbar.ProgressBar {
	if !e.terminal() {
		return progressbar.NewOptions64(total, progressbar.OptionSetVisibility(false))
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(e.stderr),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowIts(),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		// Drawn as work advances only: the library's timer reads the bar without its lock.
		progressbar.OptionSetSpinnerChangeInterval(0),
	)
}
