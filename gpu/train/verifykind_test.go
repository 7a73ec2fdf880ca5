package train

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gstore/gstore/blocks"
	"github.com/gstore/gstore/gpu/modelfile"
)

// TestVerifyFileOfAnotherKind: a whole file of one kind under the name of another is damage.
func TestVerifyFileOfAnotherKind(t *testing.T) {
	for _, c := range []struct {
		magic, name string
		whole       bool
	}{
		{modelfile.NodeRun, "1.gsm", false}, {modelfile.TemporalRun, "1.gsm", false}, {modelfile.Temporal, "current.gsr", false}, {modelfile.Temporal, "1.gsm", true},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := modelfile.Save(vfs.Default, path, c.magic, struct{}{}, nil); err != nil {
			t.Fatal(err)
		}
		if err := VerifyFile(vfs.Default, path); (err == nil) != c.whole || err != nil && !errors.Is(err, blocks.ErrCorrupt) {
			t.Errorf("%q as %s: %v", c.magic[:12], c.name, err)
		}
	}
}
