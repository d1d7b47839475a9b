"""Heap settings of the C allocator.

glibc gives each thread its own heap, up to eight per core, and keeps freed memory there. A service then holds
the peak of every thread, although few threads peak at the same time (benchmarks/api_memory.py).
"""

from __future__ import annotations

import ctypes

HEAPS = 2
"""With eight threads that search 90,000 chunks, the process grows by 118 MB with a heap per thread and by 39
MB with two heaps. Small blocks come from per-thread caches, so threads rarely wait for a heap. A low
`M_MMAP_THRESHOLD`, which returns large blocks at once, would cost a search up to 25 ms, because the system
zeroes the pages each time."""

_M_ARENA_MAX = -8  # from malloc.h


def share_heaps() -> None:
    """Let the threads of this process share HEAPS heaps. Has no effect with an allocator other than
    glibc's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAPS)
