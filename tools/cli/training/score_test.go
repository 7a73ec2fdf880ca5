package training

import (
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu/targets"
	"github.com/gstore/gstore/store/ingest/formats/database"
)

// TestScoreText: a score of nothing right is still one of its kind.
func TestScoreText(t *testing.T) {
	for kind, want := range map[string]string{database.Binary: "ROC AUC 0.0000", database.Multiclass: "accuracy 0.0000", database.Multilabel: "average precision 0.0000",
		database.Recommendation: "MAP@k 0.0000", database.Regression: "MAE 0.0000"} {
		if got := scoreText(kind, targets.Score{Rows: 3}); !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "of 3 rows") {
			t.Errorf("%s: %s", kind, got)
		}
	}
}
