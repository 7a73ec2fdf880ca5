"""Builds the shared library with the Go toolchain into the package, and tags wheels by what it needs.

The library has no Python in it: one wheel a platform serves every version of Python.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
NAME = "_gstore.dylib" if sys.platform == "darwin" else "_gstore.so"


class Build(build_py):
    """Compiles ./capi; GSTORE_LIBRARY names a library that is built already."""

    def run(self):
        super().run()
        target = pathlib.Path(self.build_lib).resolve() / "gstore" / NAME
        target.parent.mkdir(parents=True, exist_ok=True)
        if os.environ.get("GSTORE_LIBRARY"):
            self.copy_file(os.environ["GSTORE_LIBRARY"], str(target))
            return
        # The tag takes Pebble's zstd in Go, which needs no C to be compiled.
        command = ["go", "build", "-buildmode=c-shared", "-tags", "pebblegozstd", "-o", str(target), "./tools/python/capi"]
        try:
            subprocess.run(command, cwd=HERE.parent.parent, env={**os.environ, "CGO_ENABLED": "1"}, check=True)
        except FileNotFoundError:
            raise SystemExit("gstore is built with Go 1.26 or newer, which is not on the path") from None
        except subprocess.CalledProcessError as e:  # what Go says stands above
            compiler = os.environ.get("CC", "gcc").split()[0]
            if shutil.which(compiler) is None:
                raise SystemExit(f"gstore is built with a C compiler, and {compiler} is not on the path: install gcc, or name another by CC") from None
            raise SystemExit(f"go build of the shared library failed with status {e.returncode}: its message stands above") from None
        target.with_suffix(".h").unlink(missing_ok=True)


class Wheel(bdist_wheel):
    """Tags the wheel for any Python 3 and the oldest C library that has what the shared library uses."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        built = pathlib.Path(self.bdist_dir) / "gstore" / NAME
        if sys.platform == "linux" and built.exists():
            versions = [tuple(map(int, v)) for v in re.findall(rb"GLIBC_(\d+)\.(\d+)", built.read_bytes())]
            if versions:
                platform = platform.replace("linux", "manylinux_%d_%d" % max(max(versions), (2, 17)))
        return "py3", "none", platform


class Binary(Distribution):
    def has_ext_modules(self):
        return True


setup(cmdclass={"build_py": Build, "bdist_wheel": Wheel}, distclass=Binary)
