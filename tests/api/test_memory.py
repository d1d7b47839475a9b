"""Threads of a service share malloc heaps, so that memory does not hold the peak of every thread."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from shoal_api.app import HEAPS

N_THREADS = 16
SCRIPT = f"""
import ctypes, sys, threading

if sys.argv[1] == "with":
    from shoal_api.app import share_heaps
    share_heaps()
together = threading.Barrier({N_THREADS})

def work():
    together.wait()
    bytearray(100_000)
    together.wait()

threads = [threading.Thread(target=work) for _ in range({N_THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc = ctypes.CDLL(None)
libc.fdopen.restype = ctypes.c_void_p
file = libc.fdopen(1, b"w")
libc.malloc_info(0, ctypes.c_void_p(file))
libc.fflush(ctypes.c_void_p(file))
"""


def n_heaps(mode: str) -> int:
    return subprocess.check_output([sys.executable, "-c", SCRIPT, mode], text=True).count("<heap nr=")


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or not hasattr(ctypes.CDLL(None), "malloc_info"),
    reason="needs the allocator of glibc",
)
def test_threads_share_few_heaps() -> None:
    assert n_heaps("with") <= HEAPS
    assert n_heaps("without") > HEAPS, "the threads share heaps even without the call"
