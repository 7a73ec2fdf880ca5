package text

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
)

// JSONSuffixes end the names of files of JSON objects, a row each: one after another, as JSON Lines have them, or in one array.
var JSONSuffixes = []string{".jsonl", ".ndjson", ".json"}

// Bounds of what is looked at for the names of columns, and of an object.
const (
	jsonSampleRows  = 10_000
	jsonSampleBytes = 16 << 20
	jsonRowBytesMax = lineBytesMax
	jsonDepthMax    = 4    // of objects in objects
	jsonListBytes   = 1000 // of a list in a file's only object
)

// isJSON reports whether a file is one of JSON objects, by its name.
func isJSON(path string) bool {
	path = strings.ToLower(files.PlainName(path))
	for _, s := range JSONSuffixes {
		if strings.HasSuffix(path, s) {
			return true
		}
	}
	return false
}

// HoldsJSONRows reports whether a file called .json holds rows: two objects or more.
func HoldsJSONRows(fs vfs.FS, path string) bool {
	f, err := files.Open(fs, path)
	if err != nil {
		return false
	}
	defer f.Close() //nolint:errcheck // nothing is written
	r := newJSONRows(f, path)
	for range 2 {
		if _, err := r.next(); err != nil {
			return false
		}
	}
	return true
}

// jsonRows reads a file of JSON objects as comma-separated text. The first line names the columns: the keys of the first objects, in the order in
// which they come; other keys are left out. Keys of objects in objects are OUTER.INNER. A list of numbers is written as [1, 2], one of texts
// as a|b, line breaks in texts as blanks, and what is null or not there is empty.
type jsonRows struct {
	io.Closer
	path    string
	in      *bufio.Reader
	began   bool
	array   bool
	ended   bool  // the array
	err     error // that the objects end with, once they are handed out
	row     int64
	columns map[string]int
	sample  [][]byte // objects that are not handed out yet
	object  []byte   // the one in hand
	name    []byte   // of a member
	cells   [][]byte
	out     bytes.Buffer
}

func newJSONRows(f io.ReadCloser, path string) *jsonRows {
	return &jsonRows{Closer: f, path: path, in: bufio.NewReaderSize(f, 1<<16)}
}

// Read implements io.Reader.
func (r *jsonRows) Read(b []byte) (int, error) {
	if r.columns == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	for r.err == nil && r.out.Len() < len(b) {
		var object []byte
		if len(r.sample) > 0 {
			object, r.sample = r.sample[0], r.sample[1:]
		} else if object, r.err = r.next(); r.err != nil {
			break
		}
		r.write(object)
	}
	if r.out.Len() == 0 && r.err != nil {
		return 0, r.err
	}
	return r.out.Read(b)
}

// open looks at the first objects for the columns, and writes the line that names them.
func (r *jsonRows) open() error {
	r.columns = map[string]int{}
	var names []string
	for bytes := 0; len(r.sample) < jsonSampleRows && bytes < jsonSampleBytes; {
		object, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		r.members(object, r.name[:0], 1, func(name, _ []byte) {
			if _, known := r.columns[string(name)]; !known {
				r.columns[string(name)] = len(names)
				names = append(names, string(name))
			}
		})
		r.sample, bytes = append(r.sample, slices.Clone(object)), bytes+len(object)
	}
	if len(r.sample) == 1 {
		long := ""
		r.members(r.sample[0], r.name[:0], 1, func(name, value []byte) {
			if value[0] == '[' && len(value) > jsonListBytes && long == "" {
				long = string(name)
			}
		})
		if long != "" {
			graph := ""
			if long == "nodes" || long == "links" || long == "edges" {
				graph = "; in Python, gstore.ingest takes the graph that networkx.node_link_graph makes of what networkx.node_link_data wrote"
			}
			return ingest.Inputf(r.path, "one object, whose %q is a long list; expected an object for each row%s", long, graph)
		}
	}
	r.cells = make([][]byte, len(names))
	for k, n := range names {
		r.cells[k] = quoted(n)
	}
	if len(names) > 0 {
		r.line()
	}
	return nil
}

// next returns the next object, until the next call; io.EOF behind the last.
func (r *jsonRows) next() ([]byte, error) {
	object, err := r.cut()
	if err == nil && !json.Valid(object) {
		err = json.Unmarshal(object, new(json.RawMessage)) // says where
	}
	if err != nil && err != io.EOF && !errors.Is(err, ingest.ErrInput) {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends within it")
		}
		err = ingest.Inputf(r.path, "object %d: %v", r.row+1, err)
	}
	r.row++
	return object, err
}

// cut reads the next object up to its last brace.
func (r *jsonRows) cut() ([]byte, error) {
	if r.ended {
		return nil, io.EOF
	}
	c, err := r.byte()
	switch {
	case err == io.EOF && r.array:
		return nil, io.ErrUnexpectedEOF
	case err != nil:
		return nil, err
	case !r.began && c == '[':
		r.array = true
		if c, err = r.byte(); err == nil && c == ']' {
			r.ended = true
			return nil, io.EOF
		}
	case r.array && c == ']':
		r.ended = true
		return nil, io.EOF
	case r.array && c == ',':
		c, err = r.byte()
	case r.array:
		return nil, fmt.Errorf("invalid character %q after an object of an array", c)
	}
	if err != nil {
		return nil, unexpected(err)
	}
	if r.began = true; c != '{' {
		return nil, r.noObject(c)
	}
	r.object = append(r.object[:0], c)
	depth, text, escaped := 1, false, false
	for {
		part, err := r.in.ReadSlice('}')
		for _, c := range part {
			switch {
			case escaped:
				escaped = false
			case text && c == '\\':
				escaped = true
			case c == '"':
				text = !text
			case text:
			case c == '{':
				depth++
			case c == '}':
				depth--
			}
		}
		switch r.object = append(r.object, part...); {
		case depth == 0: // the last of part
			return r.object, nil
		case len(r.object) > jsonRowBytesMax:
			return nil, errJSONLong
		case err != nil && err != bufio.ErrBufferFull:
			return nil, unexpected(err)
		}
	}
}

var errJSONLong = fmt.Errorf("an object of more than %d MiB, expected one for each row", jsonRowBytesMax>>20)

// byte returns the next one that is not white.
func (r *jsonRows) byte() (byte, error) {
	for {
		c, err := r.in.ReadByte()
		if err != nil || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c, err
		}
	}
}

// noObject says what begins with c and is none.
func (r *jsonRows) noObject(c byte) error {
	rest, _ := r.in.Peek(20)
	if k := bytes.IndexAny(rest, " \t\r\n,]}"); k >= 0 {
		rest = rest[:k]
	}
	return fmt.Errorf("%s, expected an object", append([]byte{c}, rest...))
}

// members calls fn with the name, behind prefix, and the value of each member of a valid object, and of the objects in it.
func (r *jsonRows) members(object, prefix []byte, depth int, fn func(name, value []byte)) {
	for at := space(object, 1); object[at] != '}'; {
		end := valueEnd(object, at)
		name := append(prefix, keyOf(object[at:end])...)
		at = space(object, space(object, end)+1) // behind the colon
		end = valueEnd(object, at)
		if value := object[at:end]; value[0] != '{' {
			fn(name, value)
		} else if depth < jsonDepthMax {
			r.members(value, append(name, '.'), depth+1, fn)
		}
		if at = space(object, end); object[at] == ',' {
			at = space(object, at+1)
		}
		if depth == 1 {
			r.name = name[:0] // its memory grows
		}
	}
}

// keyOf is a key in quotes as text.
func keyOf(key []byte) []byte {
	text := ""
	if bytes.IndexByte(key, '\\') < 0 && utf8.Valid(key) || json.Unmarshal(key, &text) != nil {
		return key[1 : len(key)-1]
	}
	return []byte(text)
}

// space is where white space from at on ends, of valid JSON.
func space(b []byte, at int) int {
	for b[at] == ' ' || b[at] == '\t' || b[at] == '\n' || b[at] == '\r' {
		at++
	}
	return at
}

// valueEnd is where the value that begins at at ends, of a valid object.
func valueEnd(b []byte, at int) int {
	depth := 0
	for ; ; at++ {
		switch b[at] {
		case '"':
			for at++; b[at] != '"'; at++ {
				if b[at] == '\\' {
					at++
				}
			}
			if depth == 0 {
				return at + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // of the object: a number or a word ends
				return at
			}
			if depth--; depth == 0 {
				return at + 1
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return at
			}
		}
	}
}

// unexpected is err, where a file ends within an object.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// write writes a row.
func (r *jsonRows) write(object []byte) {
	for k := range r.cells {
		r.cells[k] = nil
	}
	r.members(object, r.name[:0], 1, func(name, value []byte) {
		if k, known := r.columns[string(name)]; known {
			r.cells[k] = cell(value)
		}
	})
	r.line()
}

func (r *jsonRows) line() {
	for k, c := range r.cells {
		if k > 0 {
			r.out.WriteByte(',')
		}
		r.out.Write(c)
	}
	r.out.WriteByte('\n')
}

// cell is a value as a field of comma-separated text.
func cell(v []byte) []byte {
	switch v[0] {
	case 'n':
		return nil
	case 't':
		return []byte("True")
	case 'f':
		return []byte("False")
	case '"':
		if plain := bytes.IndexByte(v, '\\') < 0 && utf8.Valid(v); plain && len(v) > 2 { // a text of one line without quotes
			return v
		}
		var text string
		if json.Unmarshal(v, &text) != nil {
			return quoted(string(v))
		}
		return quoted(text)
	case '[':
		var texts []string
		if first := v[space(v, 1)]; (first == '"' || first == ']' || first == 'n') && json.Unmarshal(v, &texts) == nil {
			return quoted(strings.Join(texts, "|"))
		}
		return quoted(string(v))
	}
	return v
}

// quoted is text in quotes, as RFC 4180 has it, in one line: the row of an object is the line after the one of its number.
func quoted(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(`"` + oneLine.Replace(text) + `"`)
}

var oneLine = strings.NewReplacer(`"`, `""`, "\n", " ", "\r", " ")
