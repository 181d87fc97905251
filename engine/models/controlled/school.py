"""Trains members of the family: one-thread processes side by side on a CPU, one on a GPU.

Each process trains one model and leaves its file, its progress and a line in the ledger.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from engine.models.controlled import ledger
from engine.models.controlled.family import Member, with_seed
from engine.registry import SpecError

TRIES = 3  # seeds that a member with a gate may take


def taught(member: Member, into: Path) -> bool:
    """Whether the folder has the member's file, of its config and recipe, and its training's last
    word is that this file is done.
    """
    from engine.models.controlled.checkpoint import header

    path, last = into / f"{member.name}.safetensors", ledger.told(member.name) or {}
    same = Path(last.get("file") or "").absolute() == path.absolute()
    if last.get("state") != "done" or not same:
        return False
    try:
        found = header(path)
    except SpecError:
        return False
    recipe = replace(member.recipe, seed=last["seed"])  # a gate may have taken a further seed
    return (found.config, found.recipe) == (member.config, recipe)


def teach(
    members: list[Member],
    into: Path,
    workers: int,
    device: str = "cpu",
    watch: Callable[[list[dict]], None] = lambda now: None,
) -> list[dict]:
    """Train them all; returns each one's last word.  Ctrl-C stops and saves what runs.

    `watch` is told once a second how the members stand.
    """
    spawn, began = get_context("spawn"), ledger.clock()
    waiting, running = list(members), {}
    ends: dict[str, dict] = {}
    try:
        while waiting or running:
            while waiting and len(running) < (workers if device == "cpu" else 1):
                member = waiting.pop(0)
                process = spawn.Process(target=lesson_room, args=(member, str(into), device))
                process.start()
                running[member.name] = process
            time.sleep(0.5)
            for name in [n for n, process in running.items() if not process.is_alive()]:
                process = running.pop(name)
                ends[name] = _last_word(name, process.exitcode, process.pid, began)
            watch(_standing(members, running, ends, began))
    except KeyboardInterrupt:
        for name, process in running.items():
            if _told(name, process.pid, began) is None:
                process.terminate()  # it has begun nothing, and would not hear
            else:
                ledger.ask_to_stop(name)
        for name, process in running.items():
            process.join(60)
            ends[name] = _last_word(name, process.exitcode, process.pid, began)
        watch(_standing(members, running, ends, began))
        raise
    return [ends[member.name] for member in members]


def _standing(members: list[Member], running: dict, ends: dict, began: str) -> list[dict]:
    """Each member's end, else what its own process tells; what an earlier run told is no news."""
    known = {name: _told(name, process.pid, began) for name, process in running.items()}
    waiting = {"state": "waiting", "step": 0, "curve": []}
    return [ends.get(m.name) or known.get(m.name) or waiting | {"name": m.name} for m in members]


def _told(name: str, pid: int | None, began: str) -> dict | None:
    """What that process told since then; None where it has said nothing yet."""
    now = ledger.told(name)
    return now if now and now["pid"] == pid and now["updated"] >= began else None


def _last_word(name: str, code: int | None, pid: int | None, began: str) -> dict:
    now = _told(name, pid, began)
    if now and now["state"] != "running":
        return now
    if code is None:  # it still saves, and tells of itself when it ends
        return now or {"name": name, "state": "running", "step": 0, "curve": []}
    told = f"its process ended with code {code}"
    if now is None:
        return ledger.never_begun(name, f"{told} before it began")
    return ledger.lost(name, f"{told}; train it again to go on")


def lesson_room(member: Member, into: str, device: str) -> None:
    """In a process of its own: train one member, trying further seeds below its gate."""
    from engine.models.controlled.checkpoint import header, save_model
    from engine.models.controlled.training import Stopped, one_thread, train

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent tells us by the ledger
    if device == "cpu":
        one_thread()
    place, first = ledger.folder(member.name), member.recipe.seed
    seeds = range(first, first + (TRIES if member.gate else 1))
    best = place / "best.safetensors"
    begin = ledger.unfinished_seed(member.name)
    if begin not in seeds:
        begin = first
        best.unlink(missing_ok=True)
    for seed in range(begin, seeds.stop):
        own = with_seed(member, seed)._replace(name=member.name)
        record = ledger.Record(member.name, own.recipe.steps, seed)
        try:
            told = train(own.config, own.recipe, place, record.tell, record.stop_asked, device)
        except Stopped as stopped:
            return record.end("stopped", "stopped; train it again to go on", step=stopped.step)
        except Exception as error:
            traceback.print_exc()
            return record.end("failed", f"{type(error).__name__}: {error}")
        model, notes = told
        if not best.is_file() or notes["accuracy"] > header(best).notes["accuracy"]:
            save_model(best, model, own.recipe, {"name": member.name, **notes})
        if notes["accuracy"] >= member.gate:
            break
        record.end("done", f"accuracy {notes['accuracy']:.3f} is below {member.gate}")
    kept = header(best)
    path = Path(into) / f"{member.name}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(best, path)
    (place / "resume.safetensors").unlink(missing_ok=True)
    accuracy, seed = kept.notes["accuracy"], kept.recipe.seed
    reason = "" if accuracy >= member.gate else f"the best of {len(seeds)} seeds, below the gate"
    return record.end("done", reason, file=str(path), accuracy=accuracy, seed=seed)


def default_workers() -> int:
    cores = (
        os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    )
    return len(cores)
