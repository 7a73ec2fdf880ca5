package command

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// Event prints {"event":name, …fields} as one line on stdout when --json is
// set, and does nothing otherwise. Fields that are NaN or infinite are null.
func (e *Env) Event(name string, fields map[string]any) {
	if !e.JSON {
		return
	}
	line := map[string]any{"event": name}
	for name, v := range fields {
		if x, ok := v.(float64); ok && (math.IsNaN(x) || math.IsInf(x, 0)) {
			v = nil // JSON has no such numbers
		}
		line[name] = v
	}
	b, err := json.Marshal(line)
	if err != nil { // only unmarshalable field types get here: a programming error
		panic(err)
	}
	b = append(b, '\n')
	if e.waits != nil && name == "summary" {
		*e.waits = append(*e.waits, b...)
		return
	}
	_, _ = e.Stdout.Write(b)
}

// Warn says what is likely to be wrong: for programs as an event.
func (e *Env) Warn(text string) {
	if e.JSON {
		e.Event("warning", map[string]any{"text": text})
		return
	}
	fmt.Fprintf(e.Stderr, "%s %s\n", e.WarnHead(), text)
}

// Told is where a command says how its work goes and what came of it: nowhere with --quiet.
func (e *Env) Told() io.Writer {
	if e.Quiet {
		return io.Discard
	}
	return e.Stdout
}

// Terminal reports whether stderr is a terminal: where progress goes.
func (e *Env) Terminal() bool {
	f, ok := e.Stderr.(*os.File)
	return ok && !e.Quiet && !e.JSON && term.IsTerminal(int(f.Fd()))
}

// progressText is about how many columns the numbers beside a bar take.
const progressText = 50

// Progress starts a bar of total units ("edges", "bytes", …) with rate and time left; it
// shows only on a terminal, in lines cut to its width. total −1 means unknown.
func (e *Env) Progress(total int64, what string) *progressbar.ProgressBar {
	if !e.Terminal() {
		return progressbar.NewOptions64(total, progressbar.OptionSetVisibility(false))
	}
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(&cutter{to: e.Stderr, width: func() int { return Width(e.Stderr) }}),
		progressbar.OptionSetWidth(min(40, max(5, Width(e.Stderr)-len(what)-progressText))),
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

// Moving starts a bar when it is first told how much is done of how much, which is by one goroutine at a time.
func (e *Env) Moving(what string) (tell func(done, total int64), end func()) {
	var bar *progressbar.ProgressBar
	tell = func(done, total int64) {
		if bar == nil {
			bar = e.Progress(total, what)
		}
		_ = bar.Set64(done)
	}
	return tell, func() {
		if bar != nil {
			_ = bar.Finish()
		}
	}
}

// Working says on a terminal what is being done, until done is called.
func (e *Env) Working(what string) (done func()) {
	if !e.Terminal() {
		return func() {}
	}
	w := &cutter{to: e.Stderr, width: func() int { return Width(e.Stderr) }}
	_, _ = io.WriteString(w, "\r"+what) // drawing fails where nobody looks
	return func() { _, _ = io.WriteString(w, "\r"+strings.Repeat(" ", len(what))+"\r") }
}

// Fields turns a struct with JSON tags into an event's fields.
func Fields(v any) map[string]any {
	b, err := json.Marshal(v)
	if err != nil { // plain numbers and strings: cannot fail
		panic(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		panic(err)
	}
	return m
}
