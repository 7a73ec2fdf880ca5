package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

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
	in      *boundedReader
	d       *json.Decoder
	began   bool
	array   bool
	row     int64
	columns map[string]int
	sample  [][]jsonField // not handed out yet
	cells   [][]byte
	out     bytes.Buffer
}

type jsonField struct {
	name  string
	value json.RawMessage
}

func newJSONRows(f io.ReadCloser, path string) *jsonRows {
	in := &boundedReader{Reader: f}
	return &jsonRows{Closer: f, path: path, in: in, d: json.NewDecoder(in)}
}

// boundedReader fails once it has read much more than an object may have.
type boundedReader struct {
	io.Reader
	read int64 // since the object began
}

var errJSONLong = fmt.Errorf("an object of more than %d MiB, expected one for each row", jsonRowBytesMax>>20)

func (r *boundedReader) Read(b []byte) (int, error) {
	if r.read > jsonRowBytesMax {
		return 0, errJSONLong
	}
	n, err := r.Reader.Read(b)
	r.read += int64(n)
	return n, err
}

// Read implements io.Reader.
func (r *jsonRows) Read(b []byte) (int, error) {
	if r.columns == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	for r.out.Len() == 0 {
		var fields []jsonField
		if len(r.sample) > 0 {
			fields, r.sample = r.sample[0], r.sample[1:]
		} else {
			var err error
			if fields, err = r.next(); err != nil {
				return 0, err
			}
		}
		r.write(fields)
	}
	return r.out.Read(b)
}

// open looks at the first objects for the columns, and writes the line that names them.
func (r *jsonRows) open() error {
	r.columns = map[string]int{}
	var names []string
	for len(r.sample) < jsonSampleRows && r.d.InputOffset() < jsonSampleBytes {
		fields, err := r.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		for _, f := range fields {
			if _, known := r.columns[f.name]; !known {
				r.columns[f.name] = len(names)
				names = append(names, f.name)
			}
		}
		r.sample = append(r.sample, fields)
	}
	if len(r.sample) == 1 {
		for _, f := range r.sample[0] {
			if f.value[0] == '[' && len(f.value) > jsonListBytes {
				return ingest.Inputf(r.path, "one object, whose %q is a long list; expected an object for each row", f.name)
			}
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

// next decodes the next object; io.EOF behind the last.
func (r *jsonRows) next() ([]jsonField, error) {
	fields, err := r.object()
	if err != nil && err != io.EOF && !errors.Is(err, ingest.ErrInput) {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file ends within it")
		}
		err = ingest.Inputf(r.path, "object %d: %v", r.row+1, err)
	}
	r.row++
	return fields, err
}

func (r *jsonRows) object() ([]jsonField, error) {
	r.in.read = 0
	if r.array && !r.d.More() {
		return nil, io.EOF
	}
	t, err := r.d.Token()
	if err == nil && !r.began && t == json.Delim('[') {
		if r.began, r.array = true, true; !r.d.More() {
			return nil, io.EOF
		}
		t, err = r.d.Token()
	}
	r.began = true
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("%v, expected an object", t)
	}
	return members(r.d, nil, "", 1)
}

// members decodes what follows the brace of an object, up to its end.
func members(d *json.Decoder, out []jsonField, prefix string, depth int) ([]jsonField, error) {
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, unexpected(err)
		}
		f := jsonField{name: prefix + t.(string)} // a key is one, or Token fails
		if err := d.Decode(&f.value); err != nil {
			return nil, unexpected(err)
		}
		if f.value[0] != '{' {
			out = append(out, f)
			continue
		}
		if depth == jsonDepthMax {
			continue
		}
		inner := json.NewDecoder(bytes.NewReader(f.value))
		if _, err := inner.Token(); err != nil {
			return nil, err
		}
		if out, err = members(inner, out, f.name+".", depth+1); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return out, unexpected(err)
}

// unexpected is err, where a file ends within an object.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// write writes a row.
func (r *jsonRows) write(fields []jsonField) {
	for k := range r.cells {
		r.cells[k] = nil
	}
	for _, f := range fields {
		if k, known := r.columns[f.name]; known {
			r.cells[k] = cell(f.value)
		}
	}
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
func cell(v json.RawMessage) []byte {
	switch v[0] {
	case 'n':
		return nil
	case 't':
		return []byte("True")
	case 'f':
		return []byte("False")
	case '"':
		var text string
		if json.Unmarshal(v, &text) != nil {
			return quoted(string(v))
		}
		return quoted(text)
	case '[':
		var texts []string
		if json.Unmarshal(v, &texts) == nil {
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
