package train

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/nn"
)

// Checkpoint is a trained model: what [Load] needs to use it again.
type Checkpoint struct {
	Version uint64    `json:"version"` // of the store that it was trained on
	Config  Config    `json:"config"`
	Model   nn.Config `json:"model"`
	Summary Summary   `json:"summary"`
	// ClassNames are those of the store that it was trained on, by number; nil where they have none.
	ClassNames []string `json:"class_names,omitempty"`
	Params     []byte   `json:"-"` // little-endian float32, see [nn.Params.Save]
}

// A model file is: magic, length of the JSON (u32), the JSON, length of the
// parameters (u64), the parameters, crc32c of all before (u32); little-endian.
const (
	modelMagic    = "gstoremodel\x001\n\x00\x00"
	modelJSONMax  = 16 << 20
	modelTailSize = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the checkpoint as a model file.
func (c *Checkpoint) Encode() ([]byte, error) { return encodeModel(modelMagic, c, c.Params) }

// encodeModel returns head as JSON and params, in the format of model files.
func encodeModel(magic string, head any, params []byte) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("train: encode checkpoint: %w", err)
	}
	b := append([]byte(magic), make([]byte, 0, len(text)+len(params)+16)...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(params)))
	b = append(b, params...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli)), nil
}

// decodeCheckpoint is the inverse of Encode; path names the source in errors,
// which are [*blocks.CorruptError].
func decodeCheckpoint(path string, b []byte) (*Checkpoint, error) {
	c := new(Checkpoint)
	params, err := decodeModel(path, modelMagic, b, c)
	if err != nil {
		return nil, err
	}
	c.Params = params
	if err := c.Model.CheckFloats(int64(len(params) / 4)); err != nil {
		return nil, &blocks.CorruptError{Path: path, Extent: "model", Offset: int64(len(b) - modelTailSize - len(params)), Reason: err.Error()}
	}
	return c, nil
}

// decodeModel is the inverse of encodeModel: it fills head and returns the parameters.
func decodeModel(path, magic string, b []byte, head any) ([]byte, error) {
	bad := func(at int, format string, args ...any) ([]byte, error) {
		return nil, &blocks.CorruptError{Path: path, Extent: "model", Offset: int64(at), Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < len(magic)+4+8+modelTailSize || string(b[:len(magic)]) != magic {
		return bad(0, "it does not begin like a model file")
	}
	body, tail := b[:len(b)-modelTailSize], b[len(b)-modelTailSize:]
	if got, want := crc32.Checksum(body, castagnoli), binary.LittleEndian.Uint32(tail); got != want {
		return bad(len(body), "checksum is %08x, expected %08x", got, want)
	}
	at := len(magic)
	n := int(binary.LittleEndian.Uint32(body[at:]))
	at += 4
	if n > modelJSONMax || n > len(body)-at-8 {
		return bad(at-4, "description of %d bytes in a file of %d", n, len(b))
	}
	if err := json.Unmarshal(body[at:at+n], head); err != nil {
		return bad(at, "description: %v", err)
	}
	at += n
	if size := binary.LittleEndian.Uint64(body[at:]); size != uint64(len(body)-at-8) {
		return bad(at, "%d bytes of parameters, expected %d", size, len(body)-at-8)
	}
	params := append([]byte(nil), body[at+8:]...)
	if len(params)%4 != 0 {
		return bad(at+8, "%d bytes of parameters of 4", len(params))
	}
	return params, nil
}

// SaveFile writes the checkpoint to path, whole or not at all.
func (c *Checkpoint) SaveFile(path string) error {
	b, err := c.Encode()
	if err != nil {
		return err
	}
	return saveModel(vfs.Default, path, b)
}

// saveModel replaces the file path by one that holds b: a crash leaves the one or the other, a return the new one.
func saveModel(fs vfs.FS, path string, b []byte) error {
	tmp := path + ".tmp"
	f, err := fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("train: save model: %w", err)
	}
	_, err = f.Write(b)
	if e := f.Sync(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fs.Rename(tmp, path)
	}
	if err != nil {
		_ = fs.Remove(tmp)
		return fmt.Errorf("train: save model: %w", err)
	}
	if err := syncDir(fs, fs.PathDir(path)); err != nil {
		return fmt.Errorf("train: save model: %w", err)
	}
	return nil
}

// syncDir makes the names in dir durable.
func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// LoadFile reads a model file.
func LoadFile(path string) (*Checkpoint, error) {
	b, err := readFile(vfs.Default, path)
	if err != nil {
		return nil, fmt.Errorf("train: load model: %w", err)
	}
	return decodeCheckpoint(path, b)
}

// VerifyFile checks the checksum and the description of a model file or of a run's checkpoint, on fs. Damage is a
// [*blocks.CorruptError].
func VerifyFile(fs vfs.FS, path string) error {
	b, err := readFile(fs, path)
	if err != nil {
		return fmt.Errorf("train: verify: %w", err)
	}
	if bytes.HasPrefix(b, []byte(runMagic)) {
		_, err = decodeModel(path, runMagic, b, new(nodeProgress))
		return err
	}
	_, err = decodeCheckpoint(path, b)
	return err
}

// readFile returns what the file holds.
func readFile(fs vfs.FS, path string) (_ []byte, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(f)
}
