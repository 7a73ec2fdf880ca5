package store

import (
	"errors"
	"strings"
	"testing"
)

// TestRelationNamed: a relation goes by its name, or by what is between the types in it where that is one relation's.
func TestRelationNamed(t *testing.T) {
	s := Schema{Relations: []Relation{{Name: "a:has:b"}, {Name: "a:of:a"}, {Name: "b:of:a"}, {Name: "plain"}}}
	for name, want := range map[string]RelationID{"has": 0, "a:of:a": 1, "plain": 3} {
		if r, err := s.RelationNamed(name); r != want || err != nil {
			t.Errorf("%s is relation %d, %v", name, r, err)
		}
	}
	if _, err := s.RelationNamed("of"); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "a:of:a and b:of:a") {
		t.Errorf("of: %v", err)
	}
	if _, err := s.RelationNamed("a"); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), `"a:has:b"`) {
		t.Errorf("a: %v", err)
	}
}
