package training

import (
	"fmt"

	"github.com/schollz/progressbar/v3"

	"github.com/gstore/gstore/cache"
	"github.com/gstore/gstore/gpu/link"
	"github.com/gstore/gstore/gpu/train"
	"github.com/gstore/gstore/gpu/train/config"
	"github.com/gstore/gstore/store"
	"github.com/gstore/gstore/store/buffer"
	"github.com/gstore/gstore/tools/cli/command"
)

// epochBar shows on a terminal how far an epoch is: its mini-batches, of as many as the last one had or, of the first one, as
// examples and batch size predict; then that it is being validated. Training's hooks move it.
type epochBar struct {
	e     *command.Env
	total int64 // mini-batches of an epoch, predicted
	epoch int   // from 1; 0: none is shown
	at    int64
	bar   *progressbar.ProgressBar
	done  func() // of what is said instead of a bar
}

// predict says how many mini-batches an epoch has.
func (b *epochBar) predict(examples uint64, batch, passes int) {
	b.total = (int64(examples) + int64(batch) - 1) / int64(max(batch, 1)) * int64(max(passes, 1))
}

// batch takes how many mini-batches of an epoch, counted from 0, are done.
func (b *epochBar) batch(epoch int, batches int64) {
	if b.bar == nil || b.epoch != epoch+1 {
		b.clear()
		b.epoch, b.bar = epoch+1, b.e.Progress(max(b.total, 1), fmt.Sprintf("epoch %d, mini-batches", epoch+1))
	}
	if b.at = batches; batches >= b.total { // more than predicted: a bar that is full is gone
		b.total = batches + 1
		b.bar.ChangeMax64(b.total)
	}
	_ = b.bar.Set64(batches) // drawing fails where nobody looks
}

// trained ends the mini-batches of an epoch: what follows is validation.
func (b *epochBar) trained(buffer.Stats) {
	if b.bar == nil {
		return
	}
	b.clear()
	b.total = b.at
	b.done = b.e.Working(fmt.Sprintf("epoch %d, validation", b.epoch))
}

// clear leaves an empty line.
func (b *epochBar) clear() {
	if b.bar != nil {
		_ = b.bar.Finish()
		b.bar = nil
	}
	if b.done != nil {
		b.done()
		b.done = nil
	}
}

// beside tells the bar what another hook is told too.
func (b *epochBar) beside(hook func(buffer.Stats, *cache.Traffic)) func(buffer.Stats, *cache.Traffic) {
	return func(s buffer.Stats, rows *cache.Traffic) {
		b.trained(s)
		hook(s, rows)
	}
}

// showNode makes hooks show how far training of nodes is, on a terminal; the result ends that.
func showNode(e *command.Env, m *store.Manifest, h *train.Hooks) func() {
	if !e.Terminal() {
		return func() {}
	}
	b := &epochBar{e: e}
	var examples uint64
	for _, p := range m.Partitions {
		examples += p.Train
	}
	h.Batch = b.batch
	h.Macro = b.beside(h.Macro)
	h.Start = both(func(c config.Config) { b.predict(examples, c.BatchSize, 1+max(0, c.Reuse)) }, h.Start)
	h.Epoch = both(func(train.Epoch) { b.clear() }, h.Epoch)
	return b.clear
}

// showLink is showNode for links.
func showLink(e *command.Env, m *store.Manifest, h *link.Hooks) func() {
	if !e.Terminal() {
		return func() {}
	}
	b := &epochBar{e: e}
	start := h.Start
	h.Batch = b.batch
	h.Macro = b.beside(h.Macro)
	h.Start = func(c link.Config, why []string) {
		b.predict(m.Edges, c.BatchSize, 1)
		start(c, why)
	}
	h.Epoch = both(func(link.Epoch) { b.clear() }, h.Epoch)
	return b.clear
}
