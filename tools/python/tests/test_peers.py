"""tools/bench/peers on small graphs: what is there is measured, what is not is said."""

import json
import subprocess
import sys

from conftest import REPOSITORY


def test_rows_are_measured_by_turns(program, tmp_path):
    command = [sys.executable, REPOSITORY / "tools/bench/peers/peers.py", "--gstore", program, "--quick", "--rounds", "2", "--threads", "1,2", "--dir", tmp_path / "graphs",
               "--datasets", tmp_path, "--only", "ingest-csv,sample,debdeps", "--json", tmp_path / "out.json"]  # fmt: skip
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads((tmp_path / "out.json").read_text())
    own = [r for r in found["results"] if r["name"] == "gstore"]
    assert {(r["row"], r["variant"], r["threads"]) for r in own} == {
        (row, variant, t) for row, variants in (("ingest-csv", ["csv"]), ("sample", ["15,10", "15,10,5"])) for variant in variants for t in (1, 2)
    }
    for r in own:
        assert r["rounds"] == 2 and r["wall"] > 0 and all(s["units"] > 0 for s in r["samples"])
        assert f"| {r['row']} {r['variant']} | {r['threads']} |" in out
    notes = " ".join(found["notes"])
    assert f"{tmp_path}/debdeps is not there" in notes
    for name, module in (("GraphBolt", "dgl"), ("PyG", "torch_geometric")):
        try:
            __import__(module)
        except ImportError:
            assert f"without {name}: ModuleNotFoundError" in notes
