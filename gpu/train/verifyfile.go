package train

import (
	"bytes"
	"fmt"
	"os"
)

// VerifyFile checks the checksum and the description of a model file or of a run's checkpoint. Damage is a
// [*blocks.CorruptError].
func VerifyFile(path string) error {
	b, err := os.ReadFile(path)
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
