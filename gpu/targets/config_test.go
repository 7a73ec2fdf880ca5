package targets

import "testing"

// TestRecentNone: none of the latest rows may have a mean of their own, which is no wish for the default.
func TestRecentNone(t *testing.T) {
	for _, c := range []struct {
		given *int
		want  int
	}{{nil, 4}, {new(0), 0}, {new(2), 2}} {
		cfg := Config{Targets: "-", Recent: c.given}
		if err := cfg.Normalize(); err != nil || *cfg.Recent != c.want {
			t.Errorf("%v, expected %d: %v", cfg.Recent, c.want, err)
		}
	}
}
