package feed

import (
	"testing"

	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/sampler/macro"
	"github.com/gstore/gstore/store/buffer"
)

// TestReuseRecordRefused: records that do not fit the run.
func TestReuseRecordRefused(t *testing.T) {
	for name, c := range map[string]config.Config{
		"too short":          {Epochs: 2, Reuse: macro.ReuseAuto, ReusePasses: [][]int{{1}}},
		"too many passes":    {Epochs: 1, Reuse: macro.ReuseAuto, ReusePasses: [][]int{{2 + macro.ReuseMax}}},
		"no pass":            {Epochs: 1, Reuse: macro.ReuseAuto, ReusePasses: [][]int{{0}}},
		"beside a number":    {Epochs: 1, Reuse: 2, ReusePasses: [][]int{{1}}},
		"below auto":         {Epochs: 1, Reuse: -2},
		"more than ReuseMax": {Epochs: 1, Reuse: 1 + macro.ReuseMax},
	} {
		if err := c.Normalize(); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	p := Passes{Replay: [][]int{{1, 2}}}
	if err := p.begin(0, &buffer.Plan{Steps: make([]buffer.Step, 3)}); err == nil {
		t.Error("a record of 2 steps for a plan of 3: not refused")
	}
}
