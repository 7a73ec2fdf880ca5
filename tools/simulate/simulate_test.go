package simulate

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/gstore/gstore/gpu/host"
)

var (
	seedFlag = flag.Uint64("seed", 0, "live this history alone and print its steps")
	fromFlag = flag.Uint64("from", 1, "the first seed")
)

// timeEnv in the environment is for how long histories are tried.
const timeEnv = "GSTORE_SIMULATE"

// A store agrees with the model in memory after every step of random histories, whatever the disk does.
func TestHistories(t *testing.T) {
	limit := 2 * time.Second
	if s := os.Getenv(timeEnv); s != "" {
		var err error
		if limit, err = time.ParseDuration(s); err != nil {
			t.Fatalf("%s: %v", timeEnv, err)
		}
	}
	dev := host.New(host.Options{Threads: 1})
	defer func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}()
	seed, end := *fromFlag, uint64(0)
	if *seedFlag != 0 {
		seed, end = *seedFlag, *seedFlag
	}
	start, histories, all, counts := time.Now(), 0, 0, map[string]int{}
	for ; (end == 0 || seed <= end) && (end != 0 || time.Since(start) < limit); seed++ {
		var numbers []int
		for n := range length(seed) {
			numbers = append(numbers, n)
		}
		log, err := live(t.Context(), dev, seed, numbers, counts)
		histories, all = histories+1, all+len(log)
		if end != 0 {
			t.Logf("seed %d:\n%s", seed, history(log))
		}
		if err == nil {
			continue
		}
		t.Errorf("seed %d: %v\n%s", seed, err, history(log))
		if fewer, log, again := shrink(t.Context(), dev, seed, numbers); again == nil {
			t.Error("lived again it does not fail: it depends on timing")
		} else {
			t.Errorf("the same with fewer steps, %v: %v\n%s", fewer, again, history(log))
		}
		t.Fatalf("again: go test ./tools/simulate -count 1 -v -args -seed %d", seed)
	}
	spent := time.Since(start).Seconds()
	t.Logf("%d histories without a difference, %d steps in %.1f s (%.1f and %.0f a second): %v", histories, all, spent, float64(histories)/spent, float64(all)/spent, counts)
}
