"""What every contender uses to measure itself: CPU and wall seconds, processes that are stopped between their turns, seconds of loops."""
import itertools, json, os, resource, select, signal, subprocess, time


CONTENDERS = {}  # by row and name: a class that takes the configuration


def contender(name, *rows):
    def register(cls):
        for row in rows:
            CONTENDERS[row, name] = cls
        return cls

    return register


def set_threads(threads):
    import torch

    torch.set_num_threads(threads)


def endless(loader):
    while True:
        yield from loader


def cpu_of(pid):
    """CPU seconds of a process so far, all threads, the system's included, to the nanosecond: its clock, as clock_getcpuclockid(3) numbers it."""
    return time.clock_gettime((~pid << 3) | 2)


def cpu_seconds():
    """CPU seconds of this process and of its live children: a loader's workers."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    total = own.ru_utime + own.ru_stime
    with open(f"/proc/self/task/{os.getpid()}/children") as f:
        for child in f.read().split():
            total += cpu_of(int(child))
    return total


def disk_bytes(pid="self"):
    """Bytes that a process had the disk read and write so far, by page faults too: as /proc/PID/io counts them."""
    with open(f"/proc/{pid}/io") as f:
        counts = dict(line.split(": ") for line in f)
    return int(counts["read_bytes"]), int(counts["write_bytes"])


class Watch:
    """with Watch() as w: …; then w.spent(units) is the answer to a request."""

    def __enter__(self):
        self.before = time.time(), cpu_seconds(), *disk_bytes()
        return self

    def __exit__(self, *_):
        after = time.time(), cpu_seconds(), *disk_bytes()
        self.wall, self.cpu, self.read, self.written = (b - a for a, b in zip(self.before, after))

    def spent(self, units=1):
        return {"cpu": self.cpu, "wall": self.wall, "units": units, "bytes_read": self.read, "bytes_written": self.written}


def command(*args, env=None):
    """Runs a command to its end: its CPU and wall seconds, and the last object that it printed."""
    start, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(list(map(str, args)), check=True, stdout=subprocess.PIPE, env={**os.environ, **(env or {})}).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = out.decode().strip().splitlines()
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu": spent, "wall": time.time() - start, "last": json.loads(lines[-1]) if lines else {}}


class Stopped:
    """A gstore process that prints a JSON event after each piece of work, and is stopped (SIGSTOP) until it is asked for the next."""

    def __init__(self, event, *args):
        self.event, self.lines, self.rest = event, [], b""
        self.process = subprocess.Popen(list(map(str, args)), stdout=subprocess.PIPE)

    def read(self):
        """Takes what was printed, or waits for it; False at the end."""
        chunk = os.read(self.process.stdout.fileno(), 1 << 16)
        *whole, self.rest = (self.rest + chunk).split(b"\n")
        self.lines += whole
        return bool(chunk)

    def objects(self):
        while self.lines or self.read():
            if self.lines:
                yield json.loads(self.lines.pop(0))

    def next(self, whole=False):
        """Goes on to the next event: its fields, beside the CPU and wall seconds since the last one. whole: the first event after
        the piece of work that the stop cut, or came too late for as it does on a busy machine; the event's own seconds are right then."""
        pid, cut = self.process.pid, whole
        while whole and select.select([self.process.stdout], [], [], 0)[0] and self.read():
            pass
        if whole:
            self.lines.clear()
        start, cpu = time.time(), cpu_of(pid)
        os.kill(pid, signal.SIGCONT)
        for found in self.objects():
            if found.get("event") != self.event:
                continue
            if cut:
                cut = False
                continue
            wall = time.time() - start
            os.kill(pid, signal.SIGSTOP)
            return {**found, "cpu": cpu_of(pid) - cpu, "wall": wall}
        raise RuntimeError(f"{self.process.args[:3]} ended with {self.process.wait()} before the next {self.event}")

    def end(self):
        """Goes on to the process's end and returns the last object that it printed."""
        os.kill(self.process.pid, signal.SIGCONT)
        last = {}
        for last in self.objects():
            pass
        self.process.wait()
        return last

    def kill(self):
        self.process.kill()
        self.process.wait()


def loop(batches, n, warm=3):
    """Takes n batches of an endless iterator, which yields how many units each is, after warm ones: more than a loader keeps ready while it waits for
    its turn."""
    for _ in range(warm):
        next(batches)
    units = 0
    with Watch() as w:
        for _ in range(n):
            units += next(batches)
    return w.spent(units)


def work(sizes, n=5):
    """The mean edges and input nodes of the first n mini-batches, of their sizes."""
    found = list(itertools.islice(sizes, n))
    return {"batch_edges": sum(e for e, _ in found) / len(found), "batch_inputs": sum(i for _, i in found) / len(found)}
