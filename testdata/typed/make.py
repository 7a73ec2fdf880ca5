#!/usr/bin/env python3
"""Writes a small graph of three types of nodes as `gstore ingest` reads typed folders: python3 make.py FOLDER"""

import os
import random
import struct
import sys


def save(path, code, shape, values):
    """A .npy file of version 1; code is struct's: f float32, q int64."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % ({"f": "<f4", "q": "<i8"}[code], shape)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack("<%d%s" % (len(values), code), *values))


def main(out):
    r = random.Random(21)
    papers, authors, venues, classes = 240, 150, 20, 4
    label = [r.randrange(classes) for _ in range(papers)]
    field = [r.randrange(classes) for _ in range(authors)]
    of = [r.randrange(classes) for _ in range(venues)]

    def features(kinds, dim):
        return [round(r.gauss(2.0 if d % classes == k else 0.0, 1.5), 3) for k in kinds for d in range(dim)]

    save(out + "/nodes/paper/feat.npy", "f", (papers, 16), features(label, 16))
    save(out + "/nodes/paper/label.npy", "q", (papers,), label)
    save(out + "/nodes/venue/feat.npy", "f", (venues, 6), features(of, 6))

    def edges(name, sources, destinations, number):
        found = set()
        while len(found) < number:
            s, d = r.randrange(len(sources)), r.randrange(len(destinations))
            if (sources[s] == destinations[d] or r.random() < 0.2) and (sources is not destinations or s != d):
                found.add((s, d))
        pairs = sorted(found)
        save(out + "/edges/" + name + "/edge_index.npy", "q", (2, number), [s for s, _ in pairs] + [d for _, d in pairs])
        return number

    n = edges("paper__cites__paper", label, label, 900)
    save(out + "/edges/paper__cites__paper/edge_weight.npy", "f", (n,), [round(r.uniform(0.5, 2), 3) for _ in range(n)])
    edges("author__writes__paper", field, label, 500)
    edges("venue__prints__paper", of, label, 240)
    order = list(range(papers))
    r.shuffle(order)
    for part, lo, hi in (("train", 0, 120), ("valid", 120, 170), ("test", 170, 230)):
        save("%s/split/%s.npy" % (out, part), "q", (hi - lo,), sorted(order[lo:hi]))


main(sys.argv[1])
