package link

import (
	"context"

	"github.com/gstore/gstore/gpu"
	"github.com/gstore/gstore/gpu/rowcache"
	"github.com/gstore/gstore/store"
)

// DeviceNeeds is the device memory of a run of c that is not for rows, the rows of its largest mini-batch and what a row takes.
func DeviceNeeds(ctx context.Context, st *store.Store, c Config, info gpu.Info) (beside, largest, rowBytes int64, err error) {
	if err = c.Normalize(); err != nil {
		return
	}
	if _, rowBytes, _, err = c.deviceColumns(st.Manifest()); err != nil {
		return
	}
	n, err := c.largestBatch(ctx, st.Manifest(), info)
	return n.tensors + rowcache.ModelBytes, n.inputs, rowBytes, err
}
