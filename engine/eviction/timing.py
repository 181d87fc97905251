"""What time it is once a device has done its work, and the most memory that a stretch took."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import torch

RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def now(device: torch.device) -> float:
    """Seconds; a GPU's queue is waited for."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def begin_peak(device: torch.device) -> bool:
    """From here on the peak is counted anew; False where the machine cannot."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return True
    with contextlib.suppress(OSError):
        RESET.write_text("5")  # Linux: the process's peak becomes what it holds now
        return True
    return False


def peak(device: torch.device) -> int | None:
    """Bytes since `begin_peak`: of the GPU, or of the whole process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    with contextlib.suppress(OSError):
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return None
