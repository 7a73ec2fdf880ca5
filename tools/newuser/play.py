"""Runs gstore as a user would and notes what is not as expected."""

import os
import subprocess
import sys

gstore, folder = sys.argv[1:3]
os.chdir(folder)
failures = []


def run(*args, says=(), fails=None, code=1, given=None):
    """Runs a command; it must succeed and print all of says, or exit with code and say all of fails. given is its standard input."""
    done = subprocess.run([gstore, *args], capture_output=True, text=True, timeout=600, input=given)
    line = "gstore " + " ".join(args)
    out = done.stdout + done.stderr
    expected = 0 if fails is None else code
    missing = [w for w in (says if fails is None else fails) if w not in out]
    if done.returncode != expected or missing:
        failures.append(f"{line}\n  exit {done.returncode}, expected {expected}; lacks {missing}\n  {out}")
        print("FAILED", line)
    else:
        print("ok    ", line)
    return out


def check(what, ok):
    """Notes a fact that does not hold."""
    print("ok    " if ok else "FAILED", what)
    if not ok:
        failures.append(what)


def done():
    """Ends the play."""
    if failures:
        print("\n" + "\n".join(failures))
        sys.exit(f"{len(failures)} failures")
    print("all that new users see is as expected")
