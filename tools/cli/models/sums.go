package models

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"regexp"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/nn"
	"github.com/gstore/gstore/store"
)

// noSum stands for a description's own checksum while that is computed.
var noSum = string(bytes.Repeat([]byte{'0'}, 2*sha256.Size))

// ownSum finds a description's own checksum.
var ownSum = regexp.MustCompile(`"description_sha256": *"([0-9a-f]{64})"`)

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// seal puts its own checksum into a description that has noSum in its place: that of all its bytes with noSum.
func seal(text []byte) []byte {
	return bytes.Replace(text, []byte(noSum), []byte(sumOf(text)), 1)
}

// checked compares a description with its own checksum, and the tensors with the one that it has of them. Of a model without
// checksums, which earlier versions and other programs write, it returns false.
func (d *description) checked(path string, text []byte, tensorsPath string, tensors []byte) (bool, error) {
	bad := func(path, extent, found, want string) error {
		return &blocks.CorruptError{Path: path, Extent: extent, Offset: -1,
			Reason: fmt.Sprintf("its sha256 is %.16s…, expected %.16s…; a file that was changed on purpose is taken without description_sha256 and tensors_sha256 in model.json", found, want)}
	}
	if d.Sum == "" && d.TensorsSum == "" {
		return false, nil
	}
	at := ownSum.FindSubmatchIndex(text)
	if at == nil || d.Sum == "" || d.TensorsSum == "" {
		return false, &blocks.CorruptError{Path: path, Extent: "description", Offset: -1, Reason: "it has one of description_sha256 and tensors_sha256, expected both or none"}
	}
	own := bytes.Clone(text)
	copy(own[at[2]:at[3]], noSum)
	if sum := sumOf(own); sum != d.Sum {
		return false, bad(path, "description", sum, d.Sum)
	}
	if sum := sumOf(tensors); sum != d.TensorsSum {
		return false, bad(tensorsPath, "tensors", sum, d.TensorsSum)
	}
	return true, nil
}

// matches says what of the tensors is not as the description has it, and refuses numbers that are not finite: a model of such
// answers NaN.
func (d *description) matches(path string, tensors []nn.Parameter) error {
	shapes := map[string][2]int64{}
	for _, t := range tensors {
		shapes[t.Name] = [2]int64{int64(t.Rows), int64(t.Cols)}
		for i := 0; i+4 <= len(t.Values); i += 4 {
			if x := float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Values[i:]))); math.IsNaN(x) || math.IsInf(x, 0) {
				return fmt.Errorf("%w: %s: number %d of tensor %s is %v, expected finite ones: training diverged, or the file is damaged", store.ErrInvalid, path, i/4, t.Name, x)
			}
		}
	}
	if len(d.Parameters) == 0 { // of a program that leaves them out
		return nil
	}
	for _, p := range d.Parameters {
		shape, ok := shapes[p.Name]
		if !ok {
			return fmt.Errorf("%w: %s: parameter %s is missing", store.ErrInvalid, path, p.Name)
		}
		if shape != p.Shape {
			return fmt.Errorf("%w: %s: tensor %s is %v, the description says %v", store.ErrInvalid, path, p.Name, shape, p.Shape)
		}
	}
	if len(shapes) != len(d.Parameters) {
		return fmt.Errorf("%w: %s: %d tensors, the description has %d", store.ErrInvalid, path, len(shapes), len(d.Parameters))
	}
	return nil
}
