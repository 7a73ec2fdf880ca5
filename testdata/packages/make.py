"""Makes packages.csv and depends.csv of the package index of the Debian system that it runs on.

usage: make.py [FOLDER]   (needs apt-cache; the files in this folder are of Debian 12, amd64, 2026-11-23)
"""

import collections
import csv
import random
import re
import subprocess
import sys

SECTIONS = ["games", "net", "science", "sound", "x11"]
EACH = 300  # packages of a section
UNKNOWN = 50  # packages whose section the table leaves out
WORDS = 40  # of the descriptions, the most frequent
DULL = {"and", "for", "with", "the", "from", "that", "using", "based", "your"}

folder = sys.argv[1] if len(sys.argv) > 1 else "."
index = {}
for entry in subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True, check=True).stdout.split("\n\n"):
    fields = dict(line.split(": ", 1) for line in entry.split("\n") if ": " in line and not line.startswith(" "))
    if "Package" in fields:
        index.setdefault(fields["Package"], fields)


def needs(name):
    """The packages that a package depends on or recommends, the first of alternatives."""
    fields = index[name]
    named = ",".join(fields.get(key, "") for key in ("Pre-Depends", "Depends", "Recommends")).split(",")
    first = (part.split("|")[0].split("(")[0].split(":")[0].strip() for part in named)
    return sorted({p for p in first if p in index and p != name})


def words(name):
    """The words of a package's description in one line."""
    return set(re.findall("[a-z]{3,}", index[name].get("Description", "").lower())) - DULL


draw = random.Random(1)
chosen = []
for section in SECTIONS:
    have = sorted(p for p, fields in index.items() if fields.get("Section") == section and len(needs(p)) >= 3)
    chosen += draw.sample(have, EACH)
chosen.sort()
unknown = set(draw.sample(chosen, UNKNOWN))
count = collections.Counter(w for p in chosen for w in words(p))
frequent = sorted(w for w, _ in sorted(count.items(), key=lambda c: (-c[1], c[0]))[:WORDS])
with open(folder + "/packages.csv", "w", newline="") as f:
    table = csv.writer(f, lineterminator="\n")
    table.writerow(["name", "label", "size_kb", *frequent])
    for p in chosen:
        section = "" if p in unknown else index[p]["Section"]
        size = index[p].get("Installed-Size", "0")
        table.writerow([p, section, size, *(int(w in words(p)) for w in frequent)])
with open(folder + "/depends.csv", "w", newline="") as f:
    table = csv.writer(f, lineterminator="\n")
    table.writerow(["source", "target"])
    table.writerows((p, q) for p in chosen for q in needs(p))
