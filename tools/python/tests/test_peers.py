"""tools/bench/peers on small graphs: what is there is measured, what is not is said."""

import json
import os
import signal
import subprocess
import sys
import time
import types

import pytest
from conftest import REPOSITORY

FOLDER = REPOSITORY / "tools/bench/peers"


@pytest.fixture
def modules(monkeypatch):
    """The scripts' modules."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import measure
    import peers

    return types.SimpleNamespace(peers=peers, measure=measure)


def test_rows_are_measured_by_turns(program, tmp_path):
    command = [sys.executable, FOLDER / "peers.py", "--gstore", program, "--quick", "--rounds", "2", "--threads", "1,2", "--dir", tmp_path / "graphs",
               "--datasets", tmp_path, "--only", "ingest-csv,sample,loader-go,debdeps", "--json", tmp_path / "out.json"]  # fmt: skip
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = json.loads((tmp_path / "out.json").read_text())
    own = [r for r in found["results"] if r["name"] == ("gstore in Go" if r["row"] == "loader-go" else "gstore")]
    fanouts = ["15,10", "15,10,5"]
    assert {(r["row"], r["variant"], r["threads"]) for r in own} == {
        (row, variant, t) for row, variants in (("ingest-csv", ["csv"]), ("sample", fanouts), ("loader-go", fanouts)) for variant in variants for t in (1, 2)
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


def test_out_of_core_is_measured_in_a_cgroup(program, tmp_path):
    command = [sys.executable, FOLDER / "peers.py", "--gstore", program, "--quick", "--rounds", "1", "--threads", "2", "--dir", tmp_path / "graphs", "--only", "out-of-core", "--plans", "hanoi,rows",
               "--json", tmp_path / "out.json"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    found = json.loads((tmp_path / "out.json").read_text())
    if any("no memory cgroup" in note for note in found["notes"]):
        pytest.skip("no memory cgroup can be made here")
    names = {(r["variant"], r["name"]) for r in found["results"]}
    assert {("hanoi", "gstore"), ("rows", "gstore")} <= names
    for r in found["results"]:
        if "of_larger" in r:  # where PyTorch is
            assert r["name"] == "PyG on gstore's loader" and r["of_larger"] > 0
    for row, note in (("PyG on gstore's loader", "without PyG on gstore's loader"), ("the disk", "without the disk")):
        assert ("hanoi", row) in names or any(note in text for text in found["notes"])


def test_a_cgroup_bounds_what_its_processes_hold(modules, tmp_path):
    missing = (tmp_path / "v1", "memory.limit_in_bytes")
    with pytest.raises(RuntimeError, match=f"takes root: .*{missing[0]}"):
        modules.peers.Cgroup(1 << 20, roots=[missing])
    (tmp_path / "v2").mkdir()
    second = modules.peers.Cgroup(1 << 20, roots=[missing, (tmp_path / "v2", "memory.max")])
    assert (second.path / "memory.max").read_text() == "1048576"
    try:
        group = modules.peers.Cgroup(64 << 20)
    except RuntimeError as e:
        pytest.skip(str(e))
    try:
        hold = "x = bytearray({} << 20); print(len(x))"
        few, many = (subprocess.run(group.enter([sys.executable, "-c", hold.format(n)]), capture_output=True, text=True) for n in (8, 256))
        left = subprocess.Popen(group.enter(["sleep", "60"]), stdin=subprocess.PIPE)
        while str(left.pid) not in (group.path / "cgroup.procs").read_text():
            time.sleep(0.01)
    finally:
        group.remove()
    assert left.wait() == -signal.SIGKILL
    assert few.stdout == f"{8 << 20}\n" and many.returncode != 0 and not many.stdout
    assert not group.path.exists()


def test_time_is_of_the_process_and_of_its_workers(modules):
    spin = "import sys, time\nwhile time.process_time() < .2: pass\nprint(flush=True)\nsys.stdin.read()"
    with modules.measure.Watch() as idle:
        pass
    with modules.measure.Watch() as busy:
        worker = subprocess.Popen([sys.executable, "-c", spin], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        worker.stdout.readline()
    worker.communicate()
    assert busy.cpu > 0.2 + idle.cpu
    assert busy.spent(3)["units"] == 3 and busy.wall > 0


def test_a_round_that_the_stop_came_too_late_for_is_not_measured(modules):
    work = (
        "import json, time\nfor k in range(1000):\n  start = time.process_time()\n  while time.process_time() < start + .05: pass\n"
        "  print(json.dumps({'event': 'round', 'k': k}), flush=True)"
    )
    p = modules.measure.Stopped("round", sys.executable, "-c", work)
    try:
        first = p.next()["k"]
        os.kill(p.process.pid, signal.SIGCONT)
        while not p.lines:  # a round or more that nobody asked for
            p.read()
        os.kill(p.process.pid, signal.SIGSTOP)
        seen = json.loads(p.lines[-1])["k"]
        second = p.next(whole=True)
        assert second["k"] >= seen + 2 > first + 2 and second["cpu"] > 0.05
    finally:
        p.kill()


def test_ratios_are_of_the_same_rounds(modules, tmp_path):
    bench = modules.peers.Bench(types.SimpleNamespace(quick=True, scale=1, dir=str(tmp_path), rounds=3, threads=[2]))
    turns = {"gstore": (1, 10, 2), "PyG on gstore's loader": (4, 20, 6), "PyG": (8, 60, 6), "the disk": (1, 1, 1)}
    samples = {(name, 2): [{"cpu": w, "wall": w, "units": 2, "bytes_read": 3e9, "bytes_written": 1e9} for w in walls] for name, walls in turns.items()}
    samples["the same batches in memory", 2] = [{"cpu": 1, "wall": 1, "units": 2}] * 3
    bench.tabulate("out-of-core", "hanoi", "batch", 2, samples, {}, {name: {} for name, _ in samples})
    found = {r["name"]: r for r in bench.results}
    assert found["PyG"]["ratios"] == {"gstore": {"cpu": 6, "wall": 6}, "PyG on gstore's loader": {"cpu": 2, "wall": 2}}
    assert found["gstore"]["ratios"] == {} == found["the disk"]["ratios"]
    lines = [line.split(" | ")[2:4] for line in bench.table().splitlines()[2:]]
    assert ["gstore", "PyG"] in lines and ["PyG on gstore's loader", "PyG"] in lines and ["PyG", "gstore"] not in lines
    # 2 batches of 3 s each: 4 GB at a second for each unit's GB / 2 are 2 s
    bench.of_larger("hanoi")
    assert found["PyG on gstore's loader"]["of_larger"] == 3
