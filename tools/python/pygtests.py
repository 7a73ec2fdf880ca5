"""Runs PyG's own tests of its NeighborLoader on gstore.pyg's, adapted by the import alone, and prints which pass and why others cannot.

usage: python tools/python/pygtests.py CHECKOUT   (of PyG's repository, of the version that is installed)

Nothing of PyG's is kept here: the test file is read from the checkout. What skips tests for want of pyg-lib is taken away, since
gstore needs none; tests that end before they test anything, such as those of int32 without pyg-lib, are told apart.
"""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

TEST = "test/loader/test_neighbor_loader.py"
IMPORT = "from torch_geometric.loader import NeighborLoader"
CONFTEST = '''
import pytest
import torch_geometric.testing, torch_geometric.typing
import gstore.pyg

torch_geometric.testing.onlyNeighborSampler = lambda f: f
_package = torch_geometric.testing.withPackage
_samplers = {"pyg_lib", "torch_sparse", "pyg_lib|torch_sparse"}
torch_geometric.testing.withPackage = lambda *names: (lambda f: f) if set(names) <= _samplers else _package(*names)
torch_geometric.typing.WITH_WEIGHTED_NEIGHBOR_SAMPLE = torch_geometric.typing.WITH_EDGE_TIME_NEIGHBOR_SAMPLE = True
made = []
_init = gstore.pyg.NeighborLoader.__init__


def _counted(self, *args, **options):
    made.append(self)
    _init(self, *args, **options)


gstore.pyg.NeighborLoader.__init__ = _counted


@pytest.fixture
def get_dataset():
    from torch_geometric.datasets import KarateClub

    return lambda name: KarateClub()


@pytest.fixture(autouse=True)
def loaders(record_property):
    made.clear()
    yield
    record_property("loaders", len(made))
'''
# What a failure says, and why it is one.
REASONS = [
    ("subgraph_type", "edges of both directions, or induced subgraphs: refused by name"),
    ("hops must be the same", "the same: refused before its number of hops is looked at"),
    ("time_attr", "sampling by time: refused by name"),
    ("FeatureStore and a GraphStore", "a FeatureStore and a GraphStore, which PyG's own loader takes"),
    ("'e_id'", "numbers of edges in HeteroData: not there"),
    ("needs sampler uniform", "weights with fanouts by relation: refused by name"),
    ("_OpNamespace", "compares two samplers of PyG's, neither of which is installed"),
]


def main(checkout: pathlib.Path) -> None:
    text = (checkout / TEST).read_text()
    if text.count(IMPORT) != 1:
        raise SystemExit(f"{checkout / TEST} has {text.count(IMPORT)} lines {IMPORT!r}: expected one")
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        (at / "test_neighbor_loader.py").write_text(text.replace(IMPORT, "from gstore.pyg import NeighborLoader"))
        (at / "conftest.py").write_text(CONFTEST)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", f"--junitxml={at / 'out.xml'}"]
        subprocess.run([*command, "test_neighbor_loader.py"], cwd=at, stdout=subprocess.DEVNULL, check=False)
        cases = list(xml.parse(at / "out.xml").iter("testcase"))
    counts, why = collections.Counter(), collections.defaultdict(list)
    for case in cases:
        failed = case.find("failure") if case.find("failure") is not None else case.find("error")
        loaders = next((int(p.get("value", 0)) for p in case.iter("property") if p.get("name") == "loaders"), 0)
        name = re.sub("^test_", "", case.get("name", ""))
        if failed is not None:
            told = failed.get("message") or ""
            why[next((reason for key, reason in REASONS if key in told), "unknown: " + told[:100])].append(name)
        counts["failed" if failed is not None else "skipped" if case.find("skipped") is not None else "passed" if loaders else "nothing tested"] += 1
        if failed is None and loaders:
            why["passed"].append(name)
    print(", ".join(f"{n} {what}" for what, n in counts.most_common()))
    for reason, names in sorted(why.items(), key=lambda x: x[0] != "passed"):
        print(f"\n{reason}: {len(names)}\n  " + "\n  ".join(names))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(pathlib.Path(sys.argv[1]))
