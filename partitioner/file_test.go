package partitioner

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/blocks/npy"
)

func npyFile(descr string, shape string, payload any) string {
	head := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	var b bytes.Buffer
	b.WriteString(npy.Magic + "\x01\x00")
	_ = binary.Write(&b, binary.LittleEndian, uint16(len(head)))
	b.WriteString(head)
	_ = binary.Write(&b, binary.LittleEndian, payload)
	return b.String()
}

func TestReadFile(t *testing.T) {
	want := []blocks.PartitionID{0, 2, 1, 2}
	for _, c := range []struct{ name, data, err string }{
		{"text", "0\n2\n1\n2\n", ""},
		{"text without a last newline", "0\n2\n1\n2", ""},
		{"carriage returns", "0\r\n2\r\n1\r\n2\r\n", ""},
		{"npy int64", npyFile("<i8", "(4,)", []int64{0, 2, 1, 2}), ""},
		{"npy uint8", npyFile("|u1", "(4,)", []uint8{0, 2, 1, 2}), ""},
		{"npy int32", npyFile("<i4", "(4,)", []int32{0, 2, 1, 2}), ""},
		{"too short", "0\n2\n1\n", "ends after 3 nodes of 4"},
		{"too long", "0\n2\n1\n2\n0\n", "line 5: the graph has only 4 nodes"},
		{"not a number", "0\n2\nx\n2\n", `line 3: found "x"`},
		{"a gap", "0\n\n1\n2\n", "line 2: the line is empty"},
		{"out of range", "0\n3\n1\n2\n", "line 2: partition 3, expected 0 to 2"},
		{"negative", npyFile("<i4", "(4,)", []int32{0, -1, 1, 2}), "element 2: partition -1"},
		{"npy of another length", npyFile("<i4", "(3,)", []int32{0, 1, 2}), "has 3 elements"},
		{"npy cut short", npyFile("<i4", "(4,)", []int32{0, 1, 2}), "ends after 3"},
		{"npy cut inside an element", npyFile("<i4", "(4,)", []int16{0, 0, 2}), "unexpected EOF"},
		{"npy of floats", npyFile("<f4", "(4,)", []float32{0, 1, 2, 2}), "expected a one-dimensional array"},
		{"npy of a matrix", npyFile("<i4", "(4, 1)", []int32{0, 1, 2, 2}), "expected a one-dimensional array"},
		{"a long line", strings.Repeat("1", 1<<19), "too long"},
	} {
		path := filepath.Join(t.TempDir(), "part")
		if err := os.WriteFile(path, []byte(c.data), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := ReadFile(path, 4, 3)
		if c.err == "" {
			if err != nil || !slices.Equal(a.Part(), want) {
				t.Errorf("%s: %v", c.name, err)
			}
			if a, err := ReadFile(path, 4, 0); err != nil || a.Partitions() != 3 {
				t.Errorf("%s, as many partitions as it names: %v, expected 3: %v", c.name, a, err)
			}
		} else if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, expected %q", c.name, err, c.err)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "none"), 1, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

func FuzzReadFile(f *testing.F) {
	f.Add([]byte("0\n1\n2\n"), uint16(3), uint8(3))
	f.Add([]byte(npyFile("<i8", "(2,)", []int64{1, 0})), uint16(2), uint8(2))
	f.Add([]byte(npy.Magic), uint16(2), uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, nodes uint16, partitions uint8) {
		a, err := readAssignment(bufio.NewReader(bytes.NewReader(data)), uint64(nodes), int(partitions))
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Fatalf("%v is not ErrFile", err)
			}
			return
		}
		if a.Nodes() != uint64(nodes) {
			t.Fatalf("%d nodes of %d", a.Nodes(), nodes)
		}
		for _, p := range a.Part() {
			if int(p) >= a.Partitions() {
				t.Fatalf("partition %d of %d", p, a.Partitions())
			}
		}
	})
}
