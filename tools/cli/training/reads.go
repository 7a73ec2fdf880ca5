package training

import (
	"github.com/spf13/pflag"

	"github.com/gstore/gstore/blocks/blockio"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/tools/cli/command"
)

// readFlags say which version of a store is read, and override how: by default its device is measured
// once (store.Store.Tuning).
type readFlags struct {
	gap, request command.Size
	depth        int
	version      uint64
	scratch      string // directory for what does not fit
}

func (r *readFlags) flags(fs *pflag.FlagSet) {
	fs.Var(&r.gap, "io-gap", "unwanted bytes that are read rather than starting another request (default: measured once for each device)")
	fs.Var(&r.request, "io-request", "largest request, a multiple of 64KiB (default: likewise)")
	fs.IntVar(&r.depth, "io-depth", 0, "requests in flight (default: likewise)")
	fs.Uint64Var(&r.version, "version", 0, "version of the store (0 = the newest)")
}

// open opens a store whose iterators go by the flags.
func (r *readFlags) open(dir string) (*store.Store, error) {
	if r.depth < 0 || r.request%(64<<10) != 0 || (blockio.Options{Depth: r.depth, SplitBytes: int(r.request)}).Validate() != nil {
		return nil, command.Usagef("--io-request %d, --io-depth %d: expected a multiple of 64KiB up to 1GiB and at most 4096", r.request, r.depth)
	}
	return store.Open(dir, store.Options{
		Version:  r.version,
		CacheDir: command.CacheDir(),
		Scratch:  r.scratch,
		Reads:    store.ReadTuning{GapBytes: int64(r.gap), RequestBytes: int64(r.request), Depth: r.depth},
	})
}
