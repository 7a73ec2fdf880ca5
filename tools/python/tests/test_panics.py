import os
import subprocess
import sys

import pytest

from conftest import REPOSITORY

SCRIPT = """
import sys
import gstore
from gstore import _lib

where = sys.argv[1]
try:
    answer = _lib.call(0, "planted", {"where": where})
    if where == "drop":
        _lib.drop(answer.handle)
except gstore.InternalError as e:
    assert "planted: " in str(e) and "goroutine " in str(e) and "planted.go" in str(e), e
else:
    raise SystemExit("no error")
assert _lib.call(0, "counts").value["objects"] == 0  # the library goes on
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """The shared library with a method that panics."""
    path = tmp_path_factory.mktemp("planted") / "_gstore.so"
    command = ["go", "build", "-buildmode=c-shared", "-tags", "pebblegozstd,planted", "-o", str(path), "./tools/python/capi"]
    subprocess.run(command, cwd=REPOSITORY, env={**os.environ, "CGO_ENABLED": "1"}, check=True)
    return path


@pytest.mark.parametrize("where", ["method", "wait", "cancel", "release", "drop"])
def test_panics_stay_inside(planted, where):
    """A panic in any function of the library is an InternalError with the stack, and the process goes on."""
    env = {**os.environ, "GSTORE_LIBRARY": str(planted)}
    done = subprocess.run([sys.executable, "-c", SCRIPT, where], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
