package command

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// Styles of text on terminals (ECMA-48, select graphic rendition).
const (
	bold   = "1"
	dim    = "2"
	red    = "1;31"
	green  = "32"
	yellow = "33"
)

// colored is text in a style where w is a terminal that shows any: not with NO_COLOR (no-color.org), nor where TERM is dumb.
func colored(w io.Writer, style, text string) string {
	f, ok := w.(*os.File)
	if !ok || text == "" || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" || !term.IsTerminal(int(f.Fd())) {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// TellResult tells a line that says what came of a command, TellBeside one that stands beside what matters: the head of a table, what a
// command took.
func (e *Env) TellResult(format string, args ...any) { e.tell(bold, format, args...) }

// TellBeside is described at [Env.TellResult].
func (e *Env) TellBeside(format string, args ...any) { e.tell(dim, format, args...) }

func (e *Env) tell(style, format string, args ...any) {
	fmt.Fprintln(e.Told(), colored(e.Stdout, style, fmt.Sprintf(format, args...)))
}

// Strong is a text that says what came of a command.
func (e *Env) Strong(text string) string { return colored(e.Stdout, bold, text) }

// Best marks what is the best until now.
func (e *Env) Best(text string, best bool) string {
	if !best {
		return text
	}
	return colored(e.Stdout, green, text)
}

// Failed is the beginning of an error's line.
func (e *Env) Failed() string { return colored(e.Stderr, red, "gstore:") }

// WarnHead is the beginning of a warning's line.
func (e *Env) WarnHead() string { return colored(e.Stderr, yellow, "gstore: warning:") }
