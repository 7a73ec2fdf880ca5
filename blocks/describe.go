package blocks

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// DescribeOptions choose how much Describe prints. The zero value prints every
// byte.
type DescribeOptions struct {
	// Elements is the most elements printed of each array, and the most extents;
	// 0 means all. What is left out is counted.
	Elements int
}

// Describe writes the file's bytes with their meaning, a structure a line:
// offset in the file, bytes, what they say. It trusts header and footer, which
// Open checked, and shows payload as it is, damaged or not.
func (f *File) Describe(w io.Writer, o DescribeOptions) error {
	out := bufio.NewWriter(w)
	d := newDescriber(out, &f.header, f.ReadAt, o)
	d.title("%s, %d bytes, %d extents, %d rows", d.name(), f.info.Size, len(f.foot.extents), f.Rows())
	d.header()
	for i, e := range f.foot.extents {
		if i == d.most {
			d.skip(f.foot.extents[len(f.foot.extents)-1].End()-e.Offset, "%d more extents", len(f.foot.extents)-i)
			break
		}
		d.extent(e)
	}
	d.footer(f.foot)
	if d.err != nil {
		return d.err
	}
	return out.Flush()
}

// describer prints a file front to back; at is how far it has come. The first
// error sticks.
type describer struct {
	h    *Header
	read func(b []byte, offset int64) error
	w    *bufio.Writer
	at   int64
	most int
	err  error
}

func newDescriber(w *bufio.Writer, h *Header, read func(b []byte, offset int64) error, o DescribeOptions) *describer {
	d := &describer{h: h, read: read, w: w, most: o.Elements}
	if d.most <= 0 {
		d.most = math.MaxInt
	}
	return d
}

// name is what the header calls the file.
func (d *describer) name() string {
	return strings.TrimRight(fmt.Sprintf("%v %s", d.h.Kind, d.h.Name), " ")
}

// bytesPerLine is how many bytes of a field one line shows.
const bytesPerLine = 8

// take reads the next n bytes.
func (d *describer) take(n int) []byte {
	b := make([]byte, n)
	if d.err == nil {
		d.err = d.read(b, d.at)
	}
	return b
}

// field prints the next n bytes with their meaning; line k of the meaning goes
// beside the k-th 8 bytes.
func (d *describer) field(n int, format string, args ...any) {
	b := d.take(n)
	meaning := strings.Split(fmt.Sprintf(format, args...), "\n")
	for lo := 0; lo < n; lo += bytesPerLine {
		part := b[lo:min(lo+bytesPerLine, n)]
		text := ""
		if k := lo / bytesPerLine; k < len(meaning) {
			text = meaning[k]
		}
		d.line(lo, fmt.Sprintf("% x", part), text)
	}
	d.at += int64(n)
}

// line prints one line for the byte lo after the current one.
func (d *describer) line(lo int, bytes, meaning string) {
	text := fmt.Sprintf("%08x  %-*s  %s", d.at+int64(lo), 3*bytesPerLine-1, bytes, meaning)
	fmt.Fprintln(d.w, strings.TrimRight(text, " "))
}

func (d *describer) u16(what string) uint16 {
	v := binary.LittleEndian.Uint16(d.take(2))
	d.field(2, "%s %d", what, v)
	return v
}

func (d *describer) u32(what string) uint32 {
	v := binary.LittleEndian.Uint32(d.take(4))
	d.field(4, "%s %d", what, v)
	return v
}

func (d *describer) u64(what string) uint64 {
	v := binary.LittleEndian.Uint64(d.take(8))
	d.field(8, "%s %d", what, v)
	return v
}

func (d *describer) crc(what string) {
	d.field(4, "%s %08x", what, binary.LittleEndian.Uint32(d.take(4)))
}

// skip passes over n bytes with one line.
func (d *describer) skip(n int64, format string, args ...any) {
	if n > 0 {
		d.line(0, fmt.Sprintf("… %d bytes", n), fmt.Sprintf(format, args...))
		d.at += n
	}
}

// zeros passes over n bytes that should be zero, with one line that says
// whether they are.
func (d *describer) zeros(n int64, what string) {
	if n <= 0 {
		return
	}
	state := "00"
	for from := int64(0); from < n && state == "00"; from += ChunkBytes {
		at := d.at
		d.at += from
		for _, c := range d.take(int(min(ChunkBytes, n-from))) {
			if c != 0 {
				state = "not zero"
			}
		}
		d.at = at
	}
	d.line(0, fmt.Sprintf("%s × %d", state, n), what)
	d.at += n
}

// array prints up to most of n elements of size bytes; meaning gets an
// element's index and bytes.
func (d *describer) array(n int64, size int, what string, meaning func(i int64, b []byte) string) {
	for i := range min(n, int64(d.most)) {
		d.field(size, "%s", meaning(i, d.take(size)))
	}
	if rest := n - int64(d.most); rest > 0 {
		d.skip(rest*int64(size), "%d more: %s", rest, what)
	}
}

func (d *describer) title(format string, args ...any) {
	fmt.Fprintf(d.w, "%s\n", fmt.Sprintf(format, args...))
}

func (d *describer) header() {
	h := d.h
	d.title("header")
	d.field(8, "magic %q", headerMagic)
	d.u16("format version")
	d.field(2, "kind %d: %v", uint16(h.Kind), h.Kind)
	d.field(2, "element type %d: %v", uint16(h.Elem), h.Elem)
	n := d.u16("name length")
	d.u64("file id")
	d.u32("dim")
	d.u32("partitions")
	d.u64("rows an extent (0: varies)")
	d.u32("alignment")
	d.u32("chunk bytes")
	if n > 0 {
		d.field(int(n), "name %q", h.Name)
	}
	d.zeros(hdrChecksum-d.at, "reserved")
	d.crc("header checksum")
}

func (d *describer) extent(e Extent) {
	h := d.h
	d.title("extent %s: %d bytes, %d rows", h.ExtentName(e.ID), e.Length, e.Rows)
	d.at = e.Offset
	switch {
	case h.Kind == Topology:
		d.stripe(e)
	case h.strings():
		d.strings(e)
	case h.Kind == EdgeList:
		d.array(int64(e.Rows), int(h.RowBytes()), "edges", func(i int64, b []byte) string {
			if h.Dim == 2 {
				return fmt.Sprintf("edge %d: src %d\n  dst %d", i, binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:]))
			}
			q := binary.LittleEndian
			return fmt.Sprintf("edge %d: src %d\n  relation %d\n  dst %d", i, q.Uint64(b), q.Uint64(b[8:]), q.Uint64(b[16:]))
		})
	default:
		d.rows(e.Rows)
	}
	d.zeros(e.End()-d.at, "padding to alignment")
}

// rows prints n rows of elements.
func (d *describer) rows(n uint64) {
	d.array(int64(n), int(d.h.RowBytes()), "rows", func(i int64, b []byte) string {
		return fmt.Sprintf("row %d: %s", i, elements(b, d.h.Elem))
	})
}

func (d *describer) strings(e Extent) {
	start := d.at
	d.array(int64(e.Rows)+1, 8, "offsets", func(i int64, b []byte) string {
		return fmt.Sprintf("string %d begins at %d", i, binary.LittleEndian.Uint64(b))
	})
	end := e.Offset + e.Length
	d.at = start + 8*(int64(e.Rows)+1)
	text, shown := d.at, d.at
	for i := range min(int64(e.Rows), int64(d.most)) {
		d.at = start + 8*i
		q := d.take(16)
		from, to := binary.LittleEndian.Uint64(q), binary.LittleEndian.Uint64(q[8:])
		d.at = shown
		if d.err != nil || text+int64(from) != shown || from > to || to > uint64(end-text) {
			break // damaged: the rest is shown as a whole
		}
		if n := int(to - from); n > 0 {
			d.field(n, "string %d: %q", i, abbreviate(d.take(n)))
		}
		shown = d.at
	}
	d.skip(end-d.at, "more text")
}

// abbreviate cuts a text that would fill more than a line.
func abbreviate(b []byte) string {
	if len(b) > 60 {
		return string(b[:60]) + "…"
	}
	return string(b)
}

func (d *describer) stripe(e Extent) {
	start := d.at
	n := DirectoryBytes(d.h.Partitions)
	d.at = e.Offset + e.Length - n
	dir, err := OpenDirectory(d.take(int(n)), d.h.Partitions, e.Length)
	d.at = start
	if err != nil {
		d.title("%v", err)
		d.skip(e.Length, "not decoded")
		return
	}
	shown := 0
	for i := range dir.Partitions() {
		if dir.BucketEdges(i) == 0 {
			continue
		}
		if shown++; shown > d.most {
			_, end := dir.Range(0, dir.Partitions())
			d.skip(start+end-d.at, "more buckets")
			break
		}
		d.bucket(&dir, i)
	}
	d.title("directory")
	d.array(int64(dir.Partitions()), directoryEntryBytes, "entries", func(i int64, _ []byte) string {
		q := dir.entry(int(i))
		return fmt.Sprintf("bucket %d: offset %d\n  first edge %d\n  %d runs, %d src nodes", i, q.offset, q.first, q.runs, q.nodes)
	})
	d.field(directoryEntryBytes, "end: offset %d\n  %d edges\n  %d partitions, %d dst nodes", dir.entry(dir.partitions).offset, dir.Edges(), dir.Partitions(), dir.DstNodes())
}

func (d *describer) bucket(dir *Directory, i int) {
	edges, runs := int64(dir.BucketEdges(i)), int64(dir.BucketRuns(i))
	d.title("bucket %d: %d edges in %d runs", i, edges, runs)
	d.array((edges+63)/64, 8, "run starts", func(k int64, b []byte) string {
		return fmt.Sprintf("run starts of edges %d–%d", 64*k, min(64*k+63, edges-1))
	})
	list := func(n int64, width int64, what string) {
		elem := Uint16
		if width == 4 {
			elem = Uint32
		}
		d.array(n, int(width), what, func(k int64, b []byte) string {
			return fmt.Sprintf("%s %d: %s", what, k, elements(b, elem))
		})
		d.zeros(pad8(n*width)-n*width, "padding to 8")
	}
	list(runs, localBytes(dir.DstNodes()), "dst of run")
	list(edges, localBytes(dir.SrcNodes(i)), "src of edge")
}

func (d *describer) footer(foot *footer) {
	d.title("footer")
	d.u64("file id")
	extents := d.u64("extents")
	chunks := d.u64("chunks")
	d.crc("header checksum")
	d.field(4, "reserved")
	d.array(int64(extents), extentEntryBytes, "extents", func(i int64, _ []byte) string {
		e := foot.extents[i]
		return fmt.Sprintf("extent id %d\n  offset %d\n  length %d\n  %d rows", e.ID, e.Offset, e.Length, e.Rows)
	})
	d.array(int64(chunks), 4, "checksums", func(i int64, b []byte) string {
		return fmt.Sprintf("chunk %d checksum %08x", i, binary.LittleEndian.Uint32(b))
	})
	d.title("trailer")
	d.u64("footer offset")
	d.u64("footer length")
	d.u64("file id")
	d.crc("footer checksum")
	d.u16("format version")
	d.zeros(trlChecksum-trlZero, "reserved")
	d.crc("trailer checksum")
	d.field(8, "magic %q", trailerMagic)
}

// elements formats the elements of b, at most 8 of them.
func elements(b []byte, t ElemType) string {
	size := t.Size()
	if size == 0 {
		return ""
	}
	var s []string
	for ; len(b) >= size; b = b[size:] {
		if len(s) == 8 {
			s = append(s, "…")
			break
		}
		s = append(s, element(b, t))
	}
	return strings.Join(s, " ")
}

func element(b []byte, t ElemType) string {
	switch t {
	case Int64:
		return fmt.Sprint(int64(binary.LittleEndian.Uint64(b)))
	case Uint64:
		return fmt.Sprint(binary.LittleEndian.Uint64(b))
	case Float32, Float16, BFloat16:
		return fmt.Sprint(float32(t.Float64(b)))
	case Float64:
		return fmt.Sprint(t.Float64(b))
	}
	return fmt.Sprint(int64(t.Float64(b)))
}
