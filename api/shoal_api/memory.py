"""Sharing the memory that answers need for a moment.

The allocator of glibc gives each thread a heap of its own, up to eight for each core, and keeps there what was freed. So a
service holds the peak of every thread, although few are at their peaks at the same time (benchmarks/api_memory.py).
"""

from __future__ import annotations

import ctypes

HEAPS = 2
"""With eight threads that search 90,000 chunks the process grows by 118 MB with a heap each, by 39 with two heaps. Small
blocks come from caches of the threads, so few threads wait for a heap. To give large blocks back at once, as a low
`M_MMAP_THRESHOLD` does, would cost a search up to 25 ms: the system has to fill them with zeros each time."""

_M_ARENA_MAX = -8  # of malloc.h


def share_heaps() -> None:
    """Let the threads of this process share a few heaps; without effect where the allocator is not glibc's."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, HEAPS)
