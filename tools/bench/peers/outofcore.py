"""What an epoch out of core is measured against: its batches in memory, and the disk."""
import concurrent.futures, mmap, os, pathlib

import loops, measure
from measure import contender

HELD_BYTES = 3 << 29  # of batches
MOST = 4 << 30  # bytes that the disk reads
BLOCK, DEEP = 1 << 20, 8  # bytes of a read, and how many are under way: what the disk reads fastest by


@contender("the same batches in memory", "out-of-core")
class Held(loops.PyGOnGstore):
    """PyG's model on an epoch's batches of gstore's loader, without sampling or reading: all, or those that fit, again and again."""

    def open(self):
        super().open()
        self.batches, self.held = 0, []

    def epoch(self, threads):
        if not self.held:
            held = 0
            for batch in super().epoch(threads, copy=True):
                self.batches += 1
                held += batch.x.nbytes + batch.edge_index.nbytes
                if held <= HELD_BYTES or not self.held:
                    self.held.append(batch)
            self.loaders.popitem()[1].close()
        return (self.held[k % len(self.held)] for k in range(self.batches))


@contender("the disk", "out-of-core")
class Disk:
    """Reads a file past the page cache, so many at a time; a unit is a GB."""

    def __init__(self, c):
        self.path = pathlib.Path(c["arrays"]) / "node_feat.npy"
        self.bytes = min(MOST, os.path.getsize(self.path)) // BLOCK * BLOCK
        os.close(os.open(self.path, os.O_RDONLY | os.O_DIRECT))

    def run(self, threads):
        file = os.open(self.path, os.O_RDONLY | os.O_DIRECT)

        def read(first):
            buffer = mmap.mmap(-1, BLOCK)  # as O_DIRECT wants it, at a page's beginning
            return sum(os.preadv(file, [buffer], at) for at in range(first * BLOCK, self.bytes, DEEP * BLOCK))

        with measure.Watch() as w, concurrent.futures.ThreadPoolExecutor(DEEP) as pool:
            got = sum(pool.map(read, range(DEEP)))
        os.close(file)
        return w.spent(got / 1e9)
