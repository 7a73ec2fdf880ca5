package layouts

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/ingest"
	"github.com/gstore/gstore/store/ingest/formats/files"
	"github.com/gstore/gstore/store/ingest/formats/numpy"
	"github.com/gstore/gstore/store/ingest/formats/parts"
)

// rawFolder is the folder of a data set's files: dir, or the folder raw in it, where PyG puts what it downloads. "" = neither has all of names.
func rawFolder(fs vfs.FS, dir string, names ...string) string {
	for _, at := range []string{dir, fs.PathJoin(dir, "raw")} {
		all := true
		for _, n := range names {
			all = all && files.Find(fs, at, n) != ""
		}
		if all {
			return at
		}
	}
	return ""
}

// IsGraphSAINT reports whether dir is laid out as the data sets of GraphSAINT are.
func IsGraphSAINT(fs vfs.FS, dir string) bool {
	return rawFolder(fs, dir, "adj_full.npz", "role.json") != ""
}

// OpenGraphSAINT opens a data set of GraphSAINT (Zeng et al., ICLR 2020), such as Flickr, Yelp or AmazonProducts, as its authors and PyG have it:
//
//	adj_full.npz    the scipy matrix of all edges
//	feats.npy       [N, D]
//	class_map.json  {"0": class, …}, or a list of 0 and 1 for each node, of several labels
//	role.json       {"tr": [ids], "va": [ids], "te": [ids]}
//
// adj_train.npz, the edges among training nodes, is not read.
func OpenGraphSAINT(fs vfs.FS, dir string) (ingest.Source, error) {
	at := rawFolder(fs, dir, "adj_full.npz", "role.json")
	if at == "" {
		return nil, ingest.Inputf(dir, "no adj_full.npz with role.json")
	}
	s := parts.New("graphsaint", dir)
	path := fs.PathJoin(at, "adj_full.npz")
	s.AddFiles(path)
	a, err := numpy.OpenArchive(fs, path)
	if err != nil {
		return nil, err
	}
	if err := numpy.AddMatrix(s, a, ""); err != nil {
		return nil, err
	}
	if path := files.Find(fs, at, "feats.npy"); path != "" {
		s.AddFiles(path)
		x, err := numpy.OpenArray(fs, path)
		if err == nil {
			err = numpy.AddColumn(s, x, "x", store.RoleFeature)
		}
		if err != nil {
			return nil, err
		}
	}
	if path := files.Find(fs, at, "class_map.json"); path != "" {
		s.AddFiles(path)
		if err := addClassMap(s, fs, path); err != nil {
			return nil, err
		}
		path = files.Find(fs, at, "role.json")
		s.AddFiles(path)
		split := parts.Split{}
		for part, key := range map[uint8]string{store.SplitTrain: "tr", store.SplitValid: "va", store.SplitTest: "te"} {
			split[part] = roleIDs(fs, path, key)
		}
		s.AddSplit("split", split)
	}
	return s, nil
}

// addClassMap adds the labels of an object of node ids, whose values are a class each, or lists of as many 0 and 1.
func addClassMap(s *parts.Source, fs vfs.FS, path string) error {
	width := 0
	err := classMap(fs, path, func(_ uint64, labels []float64) error {
		width = len(labels)
		return errEnough
	})
	if err != nil {
		return err
	}
	if width == 0 {
		return ingest.Inputf(path, "no labels")
	}
	n := s.Desc.Nodes
	s.Desc.Keyed = true
	for len(s.KeyedStreams) < len(s.RowStreams) {
		s.KeyedStreams = append(s.KeyedStreams, nil)
	}
	s.AddColumn(ingest.ColumnSpec{Name: "label", Role: store.RoleLabel, Elem: blocks.Float64, Dim: width, Rows: -1, Keyed: true}, nil)
	s.KeyedStreams = append(s.KeyedStreams, func(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, []byte, ingest.Position) error) error {
		var ids ingest.IDs
		var rows []float64
		at := ingest.Position{File: path, Unit: "entry"}
		flush := func() error {
			if len(ids.Ints) == 0 {
				return nil
			}
			err := emit(&ids, blocks.Bytes(rows), at)
			at.Index += uint64(len(ids.Ints))
			ids.Ints, rows = ids.Ints[:0], rows[:0]
			return errors.Join(err, ctx.Err())
		}
		err := classMap(fs, path, func(id uint64, labels []float64) error {
			if len(labels) != width {
				return ingest.Inputf(path, "node %d: %d labels, expected %d", id, len(labels), width)
			}
			if id >= uint64(n) {
				return ingest.Inputf(path, "node %d, expected less than %d (the number of nodes)", id, n)
			}
			ids.Ints, rows = append(ids.Ints, id), append(rows, labels...)
			if len(rows) < files.ReadBytes/8 {
				return nil
			}
			return flush()
		})
		if err != nil {
			return err
		}
		return flush()
	})
	return nil
}

// errEnough ends the reading of a JSON file.
var errEnough = errors.New("layouts: enough was read")

// classMap calls fn with each entry of an object of node ids, whose values are numbers or lists of them.
func classMap(fs vfs.FS, path string, fn func(id uint64, labels []float64) error) error {
	return withJSON(fs, path, func(d *jsonReader) error {
		var labels []float64
		return d.object(func(key string) error {
			id, err := json.Number(key).Int64()
			if err != nil || id < 0 {
				return ingest.Inputf(path, "%.40q, expected a node id (an integer ≥ 0)", key)
			}
			labels = labels[:0]
			err = d.numbers(func(x float64) error {
				labels = append(labels, x)
				return nil
			})
			if err != nil {
				return err
			}
			return fn(uint64(id), labels)
		})
	})
}

// roleIDs streams the list of node ids that an object has at a key.
func roleIDs(fs vfs.FS, path, key string) parts.IDs {
	return func(ctx context.Context, _ ingest.Env, emit func(*ingest.IDs, ingest.Position) error) error {
		return withJSON(fs, path, func(d *jsonReader) error {
			return d.object(func(k string) error {
				var ids ingest.IDs
				at := ingest.Position{File: path + ": " + key, Unit: "element"}
				err := d.numbers(func(x float64) error {
					if x != math.Trunc(x) || x < 0 || x > 1<<53 {
						return ingest.Inputf(at.File, "%v is no node id (an integer ≥ 0)", x)
					}
					if k == key {
						ids.Ints = append(ids.Ints, uint64(x))
					}
					if len(ids.Ints) < files.ReadBytes/8 {
						return nil
					}
					err := errors.Join(emit(&ids, at), ctx.Err())
					at.Index += uint64(len(ids.Ints))
					ids.Ints = ids.Ints[:0]
					return err
				})
				if err != nil || len(ids.Ints) == 0 {
					return err
				}
				return emit(&ids, at)
			})
		})
	}
}

// jsonReader reads a JSON file front to back, one value at a time.
type jsonReader struct {
	*json.Decoder
	path string
}

// withJSON calls fn with a reader of the file; errEnough ends it.
func withJSON(fs vfs.FS, path string, fn func(*jsonReader) error) (err error) {
	f, err := files.Open(fs, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err = fn(&jsonReader{json.NewDecoder(bufio.NewReaderSize(f, files.ReadBytes)), path}); errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (d *jsonReader) bad(err error) error {
	return ingest.Inputf(d.path, "byte %d: %v", d.InputOffset(), err)
}

// object calls fn with each key of the object that follows; fn reads its value.
func (d *jsonReader) object(fn func(key string) error) error {
	t, err := d.Token()
	if err == nil && t != json.Delim('{') {
		err = errors.New("expected an object")
	}
	if err != nil {
		return d.bad(err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return d.bad(err)
		}
		if err := fn(t.(string)); err != nil { // a key is one, or Token fails
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return d.bad(err)
	}
	return nil
}

// numbers calls fn with the number that follows, or with each of the list that does.
func (d *jsonReader) numbers(fn func(float64) error) error {
	t, err := d.Token()
	if err != nil {
		return d.bad(err)
	}
	if x, ok := t.(float64); ok {
		return fn(x)
	}
	if t != json.Delim('[') {
		return d.bad(errors.New("expected a number, or a list of numbers"))
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return d.bad(err)
		}
		x, ok := t.(float64)
		if !ok {
			return d.bad(errors.New("expected a number"))
		}
		if err := fn(x); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return d.bad(err)
	}
	return nil
}
