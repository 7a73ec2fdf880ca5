package formats

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/table"
)

// Pickles that Python wrote, as torch.save has them in its archives.

// pickledSplit is {"train": [0, 2], "valid": [1], "test": []} of numpy arrays by protocol 2, which is torch.save's.
const pickledSplit = "gAJ9cQAoWAUAAAB0cmFpbnEBY251bXB5Ll9jb3JlLm11bHRpYXJyYXkKX3JlY29uc3RydWN0CnECY251bXB5Cm5kYXJyYXkKcQNLAIVxBGNfY2" +
	"9kZWNzCmVuY29kZQpxBVgBAAAAYnEGWAYAAABsYXRpbjFxB4ZxCFJxCYdxClJxCyhLAUsChXEMY251bXB5CmR0eXBlCnENWAIAAABpOHEOiYiH" +
	"cQ9ScRAoSwNYAQAAADxxEU5OTkr/////Sv////9LAHRxEmKJaAVYEAAAAAAAAAAAAAAAAgAAAAAAAABxE2gHhnEUUnEVdHEWYlgFAAAAdmFsaW" +
	"RxF2gCaANLAIVxGGgJh3EZUnEaKEsBSwGFcRtoEIloBVgIAAAAAQAAAAAAAABxHGgHhnEdUnEedHEfYlgEAAAAdGVzdHEgaAJoA0sAhXEhaAmH" +
	"cSJScSMoSwFLAIVxJGgQiWNfX2J1aWx0aW5fXwpieXRlcwpxJSlScSZ0cSdidS4="

// pickledSplit4 is the same by protocol 4.
const pickledSplit4 = "gASV+AAAAAAAAAB9lCiMBXRyYWlulIwWbnVtcHkuX2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFbnVtcHmUjAduZGFycmF5lJ" +
	"OUSwCFlEMBYpSHlFKUKEsBSwKFlGgFjAVkdHlwZZSTlIwCaTiUiYiHlFKUKEsDjAE8lE5OTkr/////Sv////9LAHSUYolDEAAAAAAAAAAAAgAA" +
	"AAAAAACUdJRijAV2YWxpZJRoBGgHSwCFlGgJh5RSlChLAUsBhZRoEYlDCAEAAAAAAAAAlHSUYowEdGVzdJRoBGgHSwCFlGgJh5RSlChLAUsAhZ" +
	"RoEYlDAJR0lGJ1Lg=="

// pickledMeta is {"paper": 3, "author": 70000, "institution": 1 << 40, "num_classes": -2}.
const pickledMeta = "gAJ9cQAoWAUAAABwYXBlcnEBSwNYBgAAAGF1dGhvcnECSnARAQBYCwAAAGluc3RpdHV0aW9ucQOKBgAAAAAAAVgLAAAAbnVtX2NsYXNzZXNxBE" +
	"r+////dS4="

// pickledKG is {"num_entities": 5, "num_relations": 2}.
const pickledKG = "gAJ9cQAoWAwAAABudW1fZW50aXRpZXNxAUsFWA0AAABudW1fcmVsYXRpb25zcQJLAnUu"

// pickledTensors is {"train": …, "valid": …} of tensors: two of three elements in data/0 from the second, and the first in data/1.
const pickledTensors = "gAJ9cQAoWAUAAAB0cmFpbnEBY3RvcmNoLl91dGlscwpfcmVidWlsZF90ZW5zb3JfdjIKcQIoKFgHAAAAc3RvcmFnZXEDY3RvcmNoCkxvbmdTdG" +
	"9yYWdlCnEEWAEAAAAwcQVYAwAAAGNwdXEGSwN0cQdRSwFLAoVxCEsBhXEJiWNjb2xsZWN0aW9ucwpPcmRlcmVkRGljdApxCilScQt0cQxScQ1Y" +
	"BQAAAHZhbGlkcQ5oAigoaANoBFgBAAAAMXEPaAZLA3RxEFFLAEsBhXERaAmJaAopUnESdHETUnEUdS4="

// pickledCall is {"train": …} of what would be made by a call of eval("1+1").
const pickledCall = "gAJ9cQBYBQAAAHRyYWlucQFjX19idWlsdGluX18KZXZhbApxAlgDAAAAMSsxcQOFcQRScQVzLg=="

// savedBytes is an archive of torch.save with a pickle and further members.
func savedBytes(t testing.TB, pickle string, members map[string][]byte) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(pickle)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{"data.pkl": b, "version": []byte("3\n")}
	maps.Copy(all, members)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w, err := z.CreateHeader(&zip.FileHeader{Name: "split_dict/" + name, Method: zip.Store})
		if err == nil {
			_, err = w.Write(all[name])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Dictionaries that torch.save wrote are read whatever they are of; what is no dictionary of numbers is refused, and never called.
func TestSaved(t *testing.T) {
	open := func(pickle string, members map[string][]byte) (map[string]numpy.Saved, error) {
		return numpy.OpenSaved(memFS(t, map[string][]byte{"d/x.pt": savedBytes(t, pickle, members)}), "d/x.pt")
	}
	for name, pickle := range map[string]string{"protocol 2": pickledSplit, "protocol 4": pickledSplit4} {
		got, err := open(pickle, nil)
		if err != nil || len(got) != 3 || !slices.Equal(got["train"].List, []int64{0, 2}) || !slices.Equal(got["valid"].List, []int64{1}) || got["test"].List == nil || len(got["test"].List) != 0 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	if got, err := open(pickledMeta, nil); err != nil || got["paper"].Number != 3 || got["author"].Number != 70000 || got["institution"].Number != 1<<40 || got["num_classes"].Number != -2 {
		t.Errorf("%v, %v", got, err)
	}
	storage := map[string][]byte{"data/0": blocks.Bytes([]int64{7, 8, 9}), "data/1": blocks.Bytes([]int64{5, 6, 7})}
	if got, err := open(pickledTensors, storage); err != nil || !slices.Equal(got["train"].List, []int64{8, 9}) || !slices.Equal(got["valid"].List, []int64{5}) {
		t.Errorf("%v, %v", got, err)
	}
	storage["data/0"] = storage["data/0"][:16]
	for want, of := range map[string]struct {
		pickle  string
		members map[string][]byte
	}{
		"16 bytes from element 1 of 16 bytes": {pickledTensors, storage},
		"no array \"split_dict/data/0\"":      {pickledTensors, nil},
		"expected an integer":                 {pickledCall, nil},
		"no pickle of numbers":                {pickledSplit[:80], nil},
		"instruction 0x3c":                    {"PHg+", nil},
	} {
		if got, err := open(of.pickle, of.members); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v, expected %q", got, err, want)
		}
	}
	if _, err := numpy.OpenSaved(memFS(t, map[string][]byte{"d/x.pt": []byte("no archive")}), "d/x.pt"); err == nil || !strings.Contains(err.Error(), "torch.save") {
		t.Error(err)
	}
}

// Whatever a pickle is, it is refused or read.
func FuzzSaved(f *testing.F) {
	for _, pickle := range []string{pickledSplit, pickledSplit4, pickledMeta, pickledTensors, pickledCall} {
		b, err := base64.StdEncoding.DecodeString(pickle)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, pickle []byte) {
		storage := map[string][]byte{"data/0": blocks.Bytes([]int64{7, 8, 9})}
		fs := memFS(t, map[string][]byte{"x.pt": savedBytes(t, base64.StdEncoding.EncodeToString(pickle), storage)})
		_, _ = numpy.OpenSaved(fs, "x.pt")
	})
}

// processedFiles are three papers and two authors as MAG240M lies, or as IGB does, with files replaced; nil removes one.
func processedFiles(t testing.TB, mag bool, replace map[string][]byte) map[string][]byte {
	nan := []byte{0, 0, 0xc0, 0x7f}
	label := append(blocks.Bytes([]float32{1, 0}), nan...)
	files := map[string][]byte{
		"d/processed/paper/node_feat.npy":                    npyBytes("<f2", "3, 1", []byte{0, 0x3c, 0, 0x40, 0, 0x42}),
		"d/processed/paper/node_label.npy":                   npyBytes("<f4", "3,", label),
		"d/processed/paper/node_year.npy":                    npyBytes("<i2", "3,", make([]byte, 6)),
		"d/processed/paper___cites___paper/edge_index.npy":   npyBytes("<i8", "2, 3", blocks.Bytes([]int64{0, 1, 1, 1, 2, 0})),
		"d/processed/author___writes___paper/edge_index.npy": npyBytes("<i4", "2, 1", blocks.Bytes([]int32{1, 2})),
		"d/meta.pt":       savedBytes(t, pickledMeta, nil),
		"d/split_dict.pt": savedBytes(t, pickledSplit, nil),
	}
	if !mag {
		files = map[string][]byte{
			"d/processed/paper/node_feat.npy":                      blocks.Bytes(make([]float32, 3*1024)),
			"d/processed/paper/node_label_19.npy":                  label,
			"d/processed/paper/node_label_2K.npy":                  npyBytes("<f4", "3,", blocks.Bytes([]float32{7, 8, 9})),
			"d/processed/paper__cites__paper/edge_index.npy":       npyBytes("<i8", "3, 2", blocks.Bytes([]int64{0, 1, 1, 2, 1, 0})),
			"d/processed/paper__written_by__author/edge_index.npy": npyBytes("<i4", "1, 2", blocks.Bytes([]int32{2, 1})),
		}
	}
	maps.Copy(files, replace)
	maps.DeleteFunc(files, func(_ string, b []byte) bool { return b == nil })
	return files
}

// MAG240M and IGB are read as their own loaders read them.
func TestProcessed(t *testing.T) {
	zeros := hex.EncodeToString(make([]byte, 3*4*igbDim))
	types := "node_type node uint32 1 0 5  0100000001000000020000000200000002000000"
	authors := "author.node node uint32 1 0 2 author 0100000002000000"
	for name, c := range map[string]struct {
		mag     bool
		options Options
		replace map[string][]byte
		want    []string
	}{
		"mag240m": {true, Options{}, map[string][]byte{"d/meta.pt": nil}, []string{
			"[{author 2} {paper 3}] [author:writes:paper paper:cites:paper] 4 node [split]", "edge 1 4 0", "edge 2 3 1", "edge 3 2 1", "edge 3 4 1",
			"paper.feat feature float16 1 2 3 paper 003c00400042", types, authors, "label label float32 1 2 3 paper 0000803f000000000000c07f", "split 1 [2 4]", "split 2 [3]"}},
		"igb": {false, Options{}, nil, []string{
			"[{author 2} {paper 3}] [paper:cites:paper paper:written_by:author] 4 node [split]", "edge 2 3 0", "edge 3 2 0", "edge 3 4 0", "edge 4 1 1",
			"paper.feat feature float32 1024 2 3 paper " + zeros, types, authors, "label label float32 1 2 3 paper 0000803f000000000000c07f", "split 1 [2]", "split 3 [3 4]"}},
		"igb of 2,983 classes": {false, Options{Text: table.Options{Label: []string{"node_label_2K"}}}, nil, []string{
			"[{author 2} {paper 3}] [paper:cites:paper paper:written_by:author] 4 node [split]", "edge 2 3 0", "edge 3 2 0", "edge 3 4 0", "edge 4 1 1",
			"paper.feat feature float32 1024 2 3 paper " + zeros, types, authors, "label label float32 1 2 3 paper 0000e0400000004100001041", "split 1 [2]", "split 3 [3 4]"}},
	} {
		c.options.FS = memFS(t, processedFiles(t, c.mag, c.replace))
		s, err := Open("d", c.options)
		if err != nil {
			t.Fatal(err)
		}
		if got := told(t, s); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
	// Two edges are as many as an edge has ends.
	two, err := Open("d", Options{FS: memFS(t, processedFiles(t, false, map[string][]byte{"d/processed/paper__written_by__author/edge_index.npy": nil,
		"d/processed/paper__cites__paper/edge_index.npy": npyBytes("<i8", "2, 2", blocks.Bytes([]int64{0, 1, 0, 2}))}))})
	if err != nil {
		t.Fatal(err)
	}
	if got := told(t, two)[1:3]; !slices.Equal(got, []string{"edge 0 1", "edge 0 2"}) {
		t.Errorf("two edges of IGB: %q", got)
	}
	// Without features of a type, meta.pt knows how many nodes it has: some may be in no edge.
	s, err := Open("d", Options{FS: memFS(t, processedFiles(t, true, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Describe(); d.NodeTypes[0].Count != 70000 || d.NodeTypes[1].Count != 3 {
		t.Errorf("%+v", d.NodeTypes)
	}
}

const igbDim = 1024

// wikiFiles are five entities as WikiKG90Mv2 lies, with files replaced; nil removes one.
func wikiFiles(t testing.TB, replace map[string][]byte) map[string][]byte {
	files := map[string][]byte{
		"d/meta.pt":                   savedBytes(t, pickledKG, nil),
		"d/processed/train_hrt.npy":   npyBytes("<i4", "2, 3", blocks.Bytes([]int32{0, 1, 2, 3, 0, 1})),
		"d/processed/val_hr.npy":      npyBytes("<i4", "2, 2", blocks.Bytes([]int32{4, 1, 2, 0})),
		"d/processed/val_t.npy":       npyBytes("<i8", "2,", blocks.Bytes([]int64{3, 0})),
		"d/processed/test-dev_hr.npy": npyBytes("<i4", "1, 2", blocks.Bytes([]int32{1, 1})),
		"d/processed/entity_feat.npy": npyBytes("<f2", "5, 1", make([]byte, 10)),
	}
	maps.Copy(files, replace)
	maps.DeleteFunc(files, func(_ string, b []byte) bool { return b == nil })
	return files
}

func TestWikiKG(t *testing.T) {
	s, err := Open("d", Options{FS: memFS(t, wikiFiles(t, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if d := s.Describe(); d.Format != "wikikg90m" || d.Task != store.TaskLink || d.Nodes != 5 || d.Edges != 2 || !slices.Equal(d.Relations, []string{"0", "1"}) {
		t.Errorf("%+v", d)
	}
	want := []string{"[{node 5}] [0 1] 2 link []", "edge 0 2 1", "edge 3 1 0", "x feature float16 1 0 5  00000000000000000000", "valid [4 2] [1 0] [3 0]"}
	if got := told(t, s); !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

func TestProcessedBadInput(t *testing.T) {
	wiki := func(name, path string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: wikiFiles(t, map[string][]byte{"d/" + path: b}), want: want}
	}
	file := func(name string, mag bool, path string, b []byte, want ...string) badCase {
		return badCase{name: name, path: "d", files: processedFiles(t, mag, map[string][]byte{"d/" + path: b}), want: want}
	}
	runBad(t, []badCase{
		file("edges of MAG240M as rows", true, "processed/paper___cites___paper/edge_index.npy", npyBytes("<i8", "3, 2", make([]byte, 48)), "expected integers of shape [2, E]"),
		file("edges of IGB as columns", false, "processed/paper__cites__paper/edge_index.npy", npyBytes("<i8", "2, 3", make([]byte, 48)), "expected integers of shape [E, 2]"),
		file("ends that are no integers", false, "processed/paper__cites__paper/edge_index.npy", npyBytes("<f4", "1, 2", make([]byte, 8)), "expected integers"),
		file("an end out of its type", true, "processed/paper___cites___paper/edge_index.npy", npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 3})), "destination 3, expected 0 ≤ id < 3"),
		file("features of other nodes than meta.pt says", true, "processed/paper/node_feat.npy", npyBytes("<f4", "2, 1", make([]byte, 8)), "2 rows, expected 3 as meta.pt says"),
		file("labels of other nodes", true, "processed/paper/node_label.npy", npyBytes("<f4", "2,", make([]byte, 8)), "shape [2], expected [3]"),
		file("features without a header of half a row", false, "processed/paper/node_feat.npy", make([]byte, 4097), "4097 bytes, without a header"),
		file("a split of other nodes", true, "split_dict.pt", savedBytes(t, pickledTensors, map[string][]byte{"data/0": blocks.Bytes([]int64{0, 1, 3}), "data/1": blocks.Bytes([]int64{0})}), "train, entry 1: node 3, expected 0 ≤ id < 3"),
		wiki("a knowledge graph without its numbers", "meta.pt", nil, "no meta.pt"),
		{name: "one without triples", path: "d", format: "wikikg90m", files: wikiFiles(t, map[string][]byte{"d/processed/train_hrt.npy": nil}), want: []string{"no train_hrt.npy"}},
		wiki("one without entities", "meta.pt", savedBytes(t, pickledMeta, nil), "num_entities 0"),
		wiki("triples that are pairs", "processed/train_hrt.npy", npyBytes("<i4", "3, 2", make([]byte, 24)), "expected integers of 32 or 64 bits of shape [M, 3]"),
		wiki("answers to other questions", "processed/val_t.npy", npyList(1), "val_t.npy", "shape [2]"),
		wiki("features of other entities", "processed/entity_feat.npy", npyBytes("<f2", "4, 1", make([]byte, 8)), "expected 5 rows"),
		file("a split that is no dictionary", true, "split_dict.pt", savedBytes(t, "gAJLAS4=", nil), "it holds a int64, expected a dictionary"),
	})
}
