"""What was trained: a folder a run with its progress, and a ledger of every run that ended.

Files, since trainings run without the service.  A progress file is replaced whole.  Imports no
torch.
"""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine import paths

SILENT = 120  # seconds without a word after which a running training counts as stopped


def folder(name: str) -> Path:
    """Where a training of that name keeps checkpoint and progress."""
    return paths.home() / "training" / name


def ledger() -> Path:
    return paths.home() / "training" / "ledger.jsonl"


class Record:
    """The progress of one training, told step by step."""

    def __init__(self, name: str, steps: int, seed: int):
        self.path = folder(name) / "progress.json"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        (folder(name) / "stop").unlink(missing_ok=True)
        before = _read(self.path)
        if before and before["state"] == "running":  # killed, and nobody was there to tell
            _append(before | {"state": "stopped", "reason": "its process ended"})
        same = before and (before["steps"], before["seed"]) == (steps, seed)
        same = same and before["state"] != "done"
        self.now: dict[str, Any] = {
            "name": name,
            "state": "running",
            "step": before["step"] if same else 0,
            "steps": steps,
            "seed": seed,
            "curve": before["curve"] if same else [],
            "cpu_seconds": 0.0,
            "started": clock(),
            "reason": "",
        }
        self._save()

    def tell(self, point: dict) -> None:
        """One more point of the learning curve."""
        known = [p for p in self.now["curve"] if p[0] < point["step"]]
        known.append([point["step"], point["loss"], point["accuracy"]])
        self.now |= {"step": point["step"], "curve": known, "cpu_seconds": point["cpu_seconds"]}
        self._save()

    def stop_asked(self) -> bool:
        return (self.path.parent / "stop").exists()

    def end(self, state: str, reason: str = "", **more: Any) -> None:
        """done, stopped or failed; the ledger keeps it."""
        self.now |= {"state": state, "reason": reason, **more}
        self._save()
        _append(self.now)

    def _save(self) -> None:
        self.now |= {"updated": clock(), "pid": os.getpid()}
        _write(self.path, self.now)


def lost(name: str, reason: str) -> dict:
    """A run whose process ended amid its work is stopped; the ledger keeps it."""
    now = {"name": name, "step": 0, "curve": []} | (told(name) or {})
    now |= {"state": "stopped", "reason": reason, "updated": clock()}
    _write(folder(name) / "progress.json", now)
    _append(now)
    return now


def never_begun(name: str, reason: str) -> dict:
    """A run that ended before it had a progress of its own has failed; an earlier run's stays."""
    now = {"name": name, "state": "failed", "step": 0, "curve": [], "reason": reason}
    now["updated"] = clock()
    folder(name).mkdir(parents=True, exist_ok=True)
    _append(now)
    return now


def trainings() -> list[dict]:
    """All trainings, the one that spoke last first; one whose process is gone counts as stopped."""
    found = []
    for path in paths.home().glob("training/*/progress.json"):
        now = _read(path)
        if now is None:
            continue
        if now["state"] == "running" and time.time() - path.stat().st_mtime > SILENT:
            now |= {"state": "stopped", "reason": "its process ended; train it again to go on"}
        found.append(now)
    return sorted(found, key=lambda run: run["updated"], reverse=True)


def ended() -> list[dict]:
    """Every run that ended, oldest first."""
    if not ledger().is_file():
        return []
    lines = ledger().read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def told(name: str) -> dict | None:
    """The last word of a training's own process, None where it has said nothing."""
    return _read(folder(name) / "progress.json")


def unfinished_seed(name: str) -> int | None:
    """The seed at which a training of that name was stopped, None where none was."""
    now = told(name)
    return now["seed"] if now and now["state"] in ("running", "stopped") else None


def ask_to_stop(name: str) -> bool:
    """Whether there is a training of that name to be told; it saves and ends within a step."""
    place = folder(name)
    if not (place / "progress.json").is_file():
        return False
    (place / "stop").touch()
    return True


def _read(path: Path) -> dict | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def _write(path: Path, now: dict) -> None:
    scratch = path.with_suffix(f".{os.getpid()}")
    scratch.write_text(json.dumps(now), encoding="utf-8")
    os.replace(scratch, path)


def _append(now: dict) -> None:
    line = {k: v for k, v in now.items() if k != "curve"}
    with ledger().open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def clock() -> str:
    """Now, as records tell it; later times sort behind earlier ones."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
