package formats

import (
	"errors"
	"strings"
	"testing"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/store/ingest"
)

// Paths in a metadata.yaml stay in its folder, unless they are allowed not to.
func TestGraphBoltOutside(t *testing.T) {
	edges := npyBytes("<i8", "2, 1", blocks.Bytes([]int64{0, 1}))
	for _, path := range []string{"../secret.npy", "/other/secret.npy", "edges/../../secret.npy"} {
		fs := memFS(t, map[string][]byte{
			"d/metadata.yaml": []byte("graph:\n  nodes: [{num: 2}]\n  edges: [{format: numpy, path: " + path + "}]\n"),
			"secret.npy":      edges, "/other/secret.npy": edges, "d/edges/x": nil,
		})
		_, err := Open("d", Options{FS: fs})
		if !errors.Is(err, ingest.ErrInput) || !strings.Contains(err.Error(), "leads out of d") {
			t.Errorf("%s: %v", path, err)
		}
		s, err := Open("d", Options{FS: fs, AllowOutside: true})
		if err != nil {
			t.Errorf("%s, allowed: %v", path, err)
			continue
		}
		_ = s.Close()
	}
}
