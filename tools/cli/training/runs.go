package training

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/gstore/gstore/store"
)

// runsDir is where a store's trained models lie, below its directory.
const runsDir = store.RunsDir

// recordTrain adds r, a run of train, to the store's history and returns its number. A run that was resumed and had finished
// and been recorded before is not recorded again: then again is true. Every epoch trained adds its seconds, so those tell.
func recordTrain(ctx context.Context, dir string, r store.Run, config, summary any, epochSeconds []float64, resumed bool) (n uint64, again bool, err error) {
	r.Command = "train"
	if resumed {
		if n, again, err = recordedTrain(ctx, dir, r.Version, epochSeconds); err != nil || again {
			return n, again, err
		}
	}
	if r.Config, err = json.Marshal(config); err != nil {
		return 0, false, err
	}
	if r.Summary, err = json.Marshal(summary); err != nil {
		return 0, false, err
	}
	n, err = store.RecordRun(ctx, dir, r, store.Options{})
	return n, false, err
}

// recordedTrain returns the last run of train in the history whose epochs took exactly these seconds.
func recordedTrain(ctx context.Context, dir string, version uint64, epochSeconds []float64) (n uint64, found bool, err error) {
	h, err := store.ReadHistory(ctx, dir, store.Options{})
	if err != nil {
		return 0, false, err
	}
	for _, r := range slices.Backward(h.Runs) {
		var was struct {
			EpochSeconds []float64 `json:"epoch_seconds"`
		}
		if r.Command != "train" || r.Version != version || json.Unmarshal(r.Summary, &was) != nil {
			continue
		}
		if slices.Equal(was.EpochSeconds, epochSeconds) {
			return r.Number, true, nil
		}
	}
	return 0, false, nil
}
