"""The machine under a worker: its peak memory, its threads.

Knows the operating system and torch's switches.  Knows nothing of runs.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def peak_memory() -> int:
    """Peak resident bytes since `reset_peak`, or since the start where there is no reset."""
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def reset_peak() -> None:
    """A warm worker would else report the largest job it ever had."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def prepare_torch() -> None:
    import torch
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    hf_logging.set_verbosity_error()
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    torch.set_num_threads(int(os.environ.get("PHASESCOPE_THREADS") or min(cores, 16)))
