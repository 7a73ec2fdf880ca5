package table

import (
	"testing"

	"github.com/gstore/gstore/blocks"
)

// TestUnderscores: digits with underscores between them are numbers in Go's sources alone.
func TestUnderscores(t *testing.T) {
	for _, text := range []string{"1_0", "1_0.5", "0x_1p3"} {
		if x, err := ParseNumber([]byte(text), blocks.Float32); err == nil {
			t.Errorf("%s is read as %x", text, x)
		}
		if IsNumber([]byte(text)) {
			t.Errorf("%s is a number", text)
		}
	}
	if !IsNumber([]byte("1e400")) || !IsNumber([]byte("-.5")) {
		t.Error("numbers are none")
	}
}
