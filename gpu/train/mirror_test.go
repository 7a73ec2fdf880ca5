package train

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/gpu/train/ondevice"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store"
)

// mirrored trains by plan mirror: the same losses; what crosses is what was planned and counted, and each partition crosses once
// as long as it stays. Where a step does not fit the run is refused.
func mirrored(t *testing.T, dir string, c config.Config, beside int64, run func(config.Config, int64) ([]string, []Epoch, int64), want []string) {
	t.Helper()
	c.DevicePlan = macro.DeviceMirror
	spares := map[int]bool{}
	for _, rows := range []int64{1500, 150*int64(c.Buffer) + 40} { // with and without room for partitions of the step that comes
		if c.Plan != "hanoi" && rows < 1500 {
			continue
		}
		room := beside + rowcache.Share*32*rows
		losses, epochs, read := run(c, room)
		if fmt.Sprint(losses) != fmt.Sprint(want) {
			t.Errorf("mirror: losses %v, on the host %v", losses, want)
		}
		plan := planned(t, dir, c, room)
		spares[plan.Spare] = true
		counted := int64(0)
		for e := range epochs {
			d := epochs[e].DeviceRows
			if d == nil || d.Policy != macro.DeviceMirror || c.Plan == "" && d.Pinned != []uint64{600, 0, 0}[e] {
				t.Fatalf("mirror: epoch %d counted %+v", e+1, d)
			} else if e == 0 && (plan.Cost.Plan != macro.DeviceMirror || plan.Cost.FeatureBytes != d.MovedBytes) {
				t.Errorf("mirror: planned %+v, counted %+v", plan.Cost, d)
			}
			counted += d.MovedBytes
		}
		if read != counted && !c.History { // which reads tables of its own
			t.Errorf("mirror: counted %d bytes, operations read %d", counted, read)
		}
	}
	if c.Plan == "hanoi" && len(spares) != 2 {
		t.Errorf("spare slots in two rooms: %v", spares)
	}
	st, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	if err := c.Normalize(); err != nil {
		t.Fatal(err)
	}
	if c.Plan == "auto" {
		c.Plan = "memory"
	}
	if _, err := ondevice.Choose(&c, t.Context(), st, gpu.Info{Name: "test", MemoryBytes: beside + rowcache.Share*32*260}, 0); err == nil || !strings.Contains(err.Error(), "device plan mirror") {
		t.Errorf("mirror without room: %v", err)
	}
}
