"""The owner of one home folder: store, queue and results, opened together and closed together.

Brings in the presets' stored results once.  Knows nothing of HTTP.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.access import Access
from engine.kinds import DECODE, kind_of
from engine.presets import Preset, family_presets, presets
from engine.queue import Queue
from engine.registry import FieldError, SpecError
from engine.results import Results
from engine.speed import speed
from engine.store import Run, Store
from engine.store.bundles import import_run
from engine.warming import warm

log = logging.getLogger("phasescope")
PLANS_KEPT = 16
SPECS_KEPT, CHARACTERS_KEPT = 1000, 50_000_000  # where readers only look
SOON = 0.5  # seconds in which results that are in already are found to be
LAST = 3  # turn of the results that come in when they are asked for


class Engine:
    """Store, queue and results of one home folder, opened together and closed together."""

    def __init__(self, home: Path, stays: bool = True, access: Access | None = None):
        self.home = home
        self.access = access or Access()
        self.store = Store(home)
        self.results = Results(self.store)
        self.queue = Queue(self.store, self.results, home / "worker.log")
        self.stays = stays  # false: for one command, which loads only what it needs
        self.ready = threading.Event()  # the start page's stored results are in
        self._family = threading.Lock()  # while the controlled family's are brought in
        self._coming: threading.Thread | None = None  # at that, where nobody waits for it
        self._come = 0  # stored results so far
        self._ending = False
        self._plans: OrderedDict[tuple, dict] = OrderedDict()
        self._specs: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()  # of plans and specs: requests run in threads

    def start(self) -> None:
        self.queue.start()
        threading.Thread(target=self._prepare, name="phasescope-prepare", daemon=True).start()

    def stop(self) -> None:
        self._ending = True
        self.queue.stop()
        self.ready.wait(timeout=30)
        with self._family:
            pass
        self.store.close()

    def _prepare(self) -> None:
        """Bring in the presets' stored results; a damaged one must not keep the others out."""
        known = sorted(presets().values(), key=_turn)
        try:
            for preset in known:
                if self._ending or _turn(preset) == LAST:
                    break
                if preset.bundle:
                    self._bring_in(preset)
        except Exception:
            log.exception("the presets could not be brought in")
        finally:
            self.ready.set()
        if self.stays and not self._ending:
            warm()

    def bring_in_family(self) -> None:
        """Bring in the rest of the controlled family, when somebody first asks for it."""
        self.ready.wait(timeout=110)
        with self._family:
            for preset in family_presets().values():
                if self._ending:
                    return
                if preset.bundle and _turn(preset) == LAST:
                    self._bring_in(preset)

    def family_coming(self) -> dict | None:
        """How many stored results are in, while the family's are brought in unattended; None when
        all are.
        """
        with self._lock:
            if self._coming is None:
                name = "phasescope-family"
                self._coming = threading.Thread(target=self.bring_in_family, name=name, daemon=True)
                self._coming.start()
        self._coming.join(timeout=SOON)
        if not self._coming.is_alive():
            return None
        total = sum(bool(p.bundle) for p in (presets() | family_presets()).values())
        return {"done": min(self._come, total), "total": total}

    def _bring_in(self, preset: Preset) -> None:
        self._come += 1
        content = preset.bundle.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        if self.store.was_shipped(digest):
            return
        try:
            done = import_run(self.store, content, "preset")
        except SpecError as error:
            log.error("preset %s: %s", preset.name, error)
            return
        run = self._shipped(done["key"])
        if done["added"] and run:
            self.store.change(run.id, title=preset.title)
            if run.control_run is None:
                self._lend_control(run)
            self.results.report(self.store.run(run.id))
        self.store.mark_shipped(digest)

    def _shipped(self, key: str) -> Run | None:
        """The stored result of a key that came with a preset."""
        found = (run for run in self.store.runs_of(key) if run.source == "preset" and run.asked)
        return next(found, None)

    def _lend_control(self, run: Run) -> None:
        """A family shares its controls: each is a preset of its own, and shipped once."""
        spec = self.results.spec(run.key)
        control = spec and spec.control and self._shipped(spec.control.key)
        if control:
            self.store.change(run.id, control_run=control.id)

    def submit(self, spec: Any, title: str = "") -> Any:
        """Queue a run; whatever can be refused is refused before anything is kept."""
        self.access.check(spec, self.plan(spec))
        return self.queue.submit(spec, title)

    def remember(self, spec: Any) -> None:
        """Keep a spec for the link with its key: where readers only look, for a while in memory."""
        if not self.access.read_only:
            self.store.remember(spec)
            return
        kept = self._specs
        with self._lock:
            kept[spec.key] = json.dumps(spec.to_dict())
            kept.move_to_end(spec.key)
            while len(kept) > SPECS_KEPT or sum(map(len, kept.values())) > CHARACTERS_KEPT:
                kept.popitem(last=False)

    def spec(self, key: str) -> dict | None:
        """What `remember` kept of a key."""
        with self._lock:
            text = self._specs.get(key)
        return json.loads(text) if text else self.store.spec(key)

    def plan(self, spec: Any) -> dict:
        """What will run; the page asks for it at every change and again at Run."""
        place = (spec.key, speed(self.store, spec))
        with self._lock:
            made = self._plans.get(place)
        made = made or make_plan(spec, place[1])  # not under the lock: a plan may take seconds
        with self._lock:
            self._plans[place] = made
            self._plans.move_to_end(place)
            while len(self._plans) > PLANS_KEPT:
                self._plans.popitem(last=False)
        return made


def _turn(preset: Preset) -> int:
    """When a result is brought in: behind the control it leans on, the start page's first."""
    kind = preset.spec.get("memory", {}).get("kind")
    if kind == "trained":
        return 2 if preset.gallery else LAST
    return 0 if kind == "full" else 1


def make_plan(spec: Any, speed: float | None) -> dict:
    """Reads the tokenizer and the config, no weights; SpecError where something is refused."""
    warm()
    from engine.models.loader import check_device, facts, load_tokenizer

    if kind_of(spec) == DECODE:
        from engine.decode.plan import plan
    else:
        from engine.plan import plan
    # All is refused now rather than when the worker meets it.
    check_device(spec.model)
    known = facts(spec.model)
    if spec.control:
        with at_control():
            check_device(spec.control.model)
            other = facts(spec.control.model)
            problems = spec.control.memory.check_model(other.n_layers, other.full_layers)
            if problems:
                raise SpecError(*(FieldError(f"memory.{e.field}", e.message) for e in problems))
    return plan(spec, load_tokenizer(spec.model), known, speed)


@contextlib.contextmanager
def at_control() -> Iterator[None]:
    """What is wrong with the control is told at the control's field."""
    try:
        yield
    except SpecError as error:
        told = (FieldError(f"control.{e.field}", e.message) for e in error.errors)
        raise SpecError(*told) from None
