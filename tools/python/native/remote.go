package native

import (
	"context"

	"github.com/gstore/gstore/store/remote"
)

// transferRequest asks for a push or a pull.
type transferRequest struct {
	Path       string `json:"path"`
	Address    string `json:"address"`
	Note       string `json:"note"`
	Force      bool   `json:"force"`
	Snapshot   uint64 `json:"snapshot"`
	Lazy       bool   `json:"lazy"`
	CacheBytes int64  `json:"cache_bytes"`
}

// openRequest asks for a store, or for the one at an address.
type openRequest struct {
	Path       string `json:"path"`
	Version    uint64 `json:"version"`
	CacheDir   string `json:"cache_dir"` // "" = the command line's
	CacheBytes int64  `json:"cache_bytes"`
}

// follow opens the folder of an address.
func follow(ctx context.Context, q *openRequest) (*remote.Followed, error) {
	b, err := remote.Open(q.Path)
	if err != nil {
		return nil, err
	}
	return remote.Follow(ctx, b, q.CacheDir, remote.FollowOptions{CacheBytes: q.CacheBytes})
}

// upload pushes a store to an address.
func upload(ctx context.Context, c *call) error {
	return c.transfer(func(b remote.Bucket, q *transferRequest) (remote.Moved, error) {
		return remote.Push(ctx, b, q.Path, remote.PushOptions{Note: q.Note, Force: q.Force})
	})
}

// download pulls a store from an address.
func download(ctx context.Context, c *call) error {
	return c.transfer(func(b remote.Bucket, q *transferRequest) (remote.Moved, error) {
		return remote.Pull(ctx, b, q.Path, remote.PullOptions{Snapshot: q.Snapshot, Force: q.Force, Lazy: q.Lazy, CacheBytes: q.CacheBytes})
	})
}

// transfer does a push or a pull, and answers with its snapshot.
func (c *call) transfer(do func(remote.Bucket, *transferRequest) (remote.Moved, error)) error {
	var q transferRequest
	if err := c.decode(&q); err != nil {
		return err
	}
	b, err := remote.Open(q.Address)
	if err != nil {
		return err
	}
	m, err := do(b, &q)
	if err != nil {
		return err
	}
	return c.answer(map[string]any{"snapshot": m.Snapshot.Number})
}
