"""The process that holds the models: requests come in by a pipe, batches of rows go out.

Knows models, memories and copies.  Never opens the database; may be killed at any moment, and ends
by itself when the service is gone.  `Worker` is the service's end of the pipe and imports no torch.
"""

from __future__ import annotations

import itertools
import logging
import os
import platform
import signal
import sys
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, NamedTuple

from engine.kinds import evicts
from engine.machine import peak_memory, prepare_torch, reset_peak

KEPT_MODELS = 2  # a run's and its control's
JOBS = ("sweep", "decode")  # requests that are long
SHORT = ("out of memory", "can't allocate memory")  # a GPU's allocator, torch's own on a CPU


class Event(NamedTuple):
    """What the worker says: of which request, what kind, and its content."""

    id: int
    kind: str  # planned, batch, done, failed, cancelled, written, map, trace, step
    content: Any


class WorkerDied(RuntimeError):
    """The process is gone; the message says how.  `killed`: as a system short of memory does it."""

    def __init__(self, message: str, killed: bool = False):
        super().__init__(message)
        self.killed = killed


class Worker:
    """The service's handle on one spawned process."""

    def __init__(self, log: Path):
        spawn = get_context("spawn")
        self._pipe, theirs = spawn.Pipe()
        self.process = spawn.Process(
            target=main, args=(theirs, str(log)), name="phasescope-worker", daemon=True
        )
        self.process.start()
        # Only the child may hold its end, or its death would not show here as an end of file.
        theirs.close()

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def send(self, request: dict) -> None:
        try:
            self._pipe.send(request)
        except (BrokenPipeError, OSError):
            raise self.obituary() from None

    def receive(self, seconds: float) -> Event | None:
        """The next event, or None after `seconds`; WorkerDied when there will be none."""
        ready = connection.wait([self._pipe, self.process.sentinel], seconds)
        if self._pipe in ready or (ready and self._pipe.poll()):
            try:
                return Event(*self._pipe.recv())
            except (EOFError, OSError):
                raise self.obituary() from None
        if ready:
            raise self.obituary()
        return None

    def obituary(self) -> WorkerDied:
        self.process.join(1)
        code = self.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return WorkerDied(
            f"the worker process ended {how}; the rows it had sent are kept, "
            "run it again to compute the rest",
            code == -signal.SIGKILL,
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.join(5)
        self._pipe.close()


# ---- inside the process


class Cancelled(Exception):
    """The user asked for an end."""


def main(pipe: connection.Connection, log: str) -> None:
    """Serve requests until the service is gone."""
    # Ctrl-C in a terminal reaches the whole group; the service decides what becomes of a job.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _quiet(log)
    try:
        Office(pipe).run()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return


def _quiet(log: str) -> None:
    """Send what libraries print to a file: standard output belongs to the command line's JSON."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for stream in (1, 2):
        os.dup2(out, stream)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


class Office:
    """Warm models, and one method per request."""

    def __init__(self, pipe: connection.Connection):
        self.pipe = pipe
        self.models: OrderedDict = OrderedDict()
        self.doing: int | None = None  # the job at work
        self.waiting: list[dict] = []  # requests that came while it was
        self.ended: set[int] = set()  # requests that nobody waits for any more

    def say(self, id: int, kind: str, content: Any = None) -> None:
        self.pipe.send(tuple(Event(id, kind, content)))

    def run(self) -> None:
        while True:
            self.serve(self.waiting.pop(0) if self.waiting else self.pipe.recv())

    def serve(self, request: dict) -> None:
        """Answer one request; whatever goes wrong with it becomes a `failed` event."""
        id, do = request["id"], request["do"]
        if do == "cancel":
            return  # of a job that has just ended
        try:
            {
                "sweep": self.sweep,
                "decode": self.decode,
                "write": self.write,
                "map": self.map,
                "trace": self.trace,
            }[do](request)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            raise
        except Cancelled:
            self.say(id, "cancelled")
        except Exception as error:
            trace = traceback.format_exc()
            self.say(id, "failed", {"reason": reason(error, request), "trace": trace})

    def pulse(self) -> None:
        """Between two forwards of a job: is there a cancel?  Whatever else has come waits."""
        self.heed(self.doing)

    def heed(self, id: int | None) -> None:
        """Raise Cancelled where an end was asked of request `id`, now or before."""
        while self.pipe.poll():
            request = self.pipe.recv()
            if request["do"] == "cancel":
                self.ended.add(request["id"])
            else:
                self.waiting.append(request)
        if id in self.ended:
            raise Cancelled

    def between(self) -> None:
        """Between two batches: a cancel, and the small requests, which need not wait for a job."""
        self.pulse()
        small = [request for request in self.waiting if request["do"] not in JOBS]
        self.waiting = [request for request in self.waiting if request["do"] in JOBS]
        for request in small:
            self.serve(request)

    def loaded(self, model: Any) -> Any:
        """The model, from memory if it is warm and its files are as they were."""
        from engine.models.loader import load_model
        from engine.models.prints import fingerprint

        known = model, fingerprint(model.id, model.revision)
        if known not in self.models:
            prepare_torch()
            while len(self.models) >= KEPT_MODELS:
                self.models.popitem(last=False)
            self.models[known] = load_model(model)
        self.models.move_to_end(known)
        return self.models[known]

    def built(self, spec: Any) -> list:
        """All copies of a spec, ordered by (sample, shift)."""
        from engine.build import build
        from engine.models.loader import facts, load_tokenizer

        return build(spec, load_tokenizer(spec.model), facts(spec.model))

    def copy(self, spec: Any, sample: int, shift: int) -> Any:
        return next(c for c in self.built(spec) if (c.sample, c.shift) == (sample, shift))

    def sweep(self, request: dict) -> None:
        """Compute what is missing of a run and of its control, batch by batch in turn."""
        from engine.copies import one_cycle

        reset_peak()
        spec, id = _spec(request["spec"]), request["id"]
        self.doing = id
        parts = {"run": spec} | ({"control": spec.control} if spec.control else {})
        scanned, have = self.scanned(spec), request["have"]
        cycle = one_cycle(self.built(spec), spec.stride) if scanned else []
        expected, lanes = {}, []
        for name, part in parts.items():
            copies = self.built(part)
            self.between()
            more = len(scanned) * len(cycle) if name == "run" else 0
            expected[name] = expected_rows(part, copies, more)
            lanes.append(Lane(name, part, copies, None, have[name]))
        lanes += [Lane("run", spec, cycle, layer, have["run"]) for layer in scanned]
        lanes = [lane for lane in lanes if lane.missing]
        self.say(id, "planned", {"rows": expected, "left": sum(len(x.missing) for x in lanes)})
        for lane in lanes:
            self.loaded(lane.spec.model)
            self.between()
        last = time.perf_counter()
        for lane, batch in self.batches(lanes):
            now = time.perf_counter()
            content = {
                "part": lane.name,
                "replace": lane.broken,
                "batch": tuple(batch),
                "tokens": tokens_read(batch),
                "seconds": now - last,
            }
            last = now
            self.say(id, "batch", content)
            self.between()
        floor = request["noise_floor"]
        if floor is None:
            measure = lane_code(spec).noise_floor
            floor = float(measure(spec, self.loaded(spec.model), self.built(spec)))
        made = {name: self.provenance(part) for name, part in parts.items()}
        self.say(id, "done", {"noise_floor": floor, "provenance": made})

    def scanned(self, spec: Any) -> tuple[int, ...]:
        from engine.models.loader import facts

        return tuple(facts(spec.model).full_layers) if spec.settings.scan else ()

    def batches(self, lanes: list[Lane]) -> Iterator[tuple[Lane, Any]]:
        """The sweeps of run and control one batch each in turn, then the layer scan's."""
        both = [lane for lane in lanes if lane.layer is None]
        for group in (both, *([lane] for lane in lanes if lane.layer is not None)):
            for turn in itertools.zip_longest(*map(self.stream, group)):
                for lane, batch in zip(group, turn, strict=True):
                    if batch is not None:
                        yield lane, batch

    def stream(self, lane: Lane) -> Iterator[Any]:
        code, model = lane_code(lane.spec), self.loaded(lane.spec.model)
        if evicts(lane.spec):
            return code.phase_sweep(lane.spec, model, lane.missing)
        layers = None if lane.layer is None else [lane.layer]
        return code.sweep(lane.spec, model, lane.missing, layers)

    def provenance(self, spec: Any) -> dict:
        """What made the numbers besides the spec.  What they cost, the queue adds up by batch."""
        import torch

        from engine.version import code_version, library_versions

        return self.loaded(spec.model).provenance() | {
            "code_version": code_version(evicts(spec)),
            "libraries": library_versions(),
            "python": platform.python_version(),
            "platform": platform.platform(),
            "threads": torch.get_num_threads(),
            "seed": getattr(spec, "settings", spec).seed,
            "peak_memory_bytes": peak_memory(),
        }

    def write(self, request: dict) -> None:
        """What the model writes on the copies asked for."""
        spec = _spec(request["spec"])
        if evicts(spec):
            from engine.eviction.phase import write
        else:
            from engine.run.write import write
        loaded = self.loaded(spec.model)
        copies = [self.copy(spec, sample, shift) for sample, shift in request["copies"]]
        self.say(request["id"], "written", [write(spec, loaded, copy) for copy in copies])

    def map(self, request: dict) -> None:
        """One layer's and head's attention on one copy."""
        from engine.run.maps import attention_map

        spec = _spec(request["spec"])
        spec = spec.control if request["control"] else spec
        copy = self.copy(spec, request["sample"], request["shift"])
        found = attention_map(
            spec, self.loaded(spec.model), copy, request["layer"], request["head"]
        )
        self.say(request["id"], "map", found._asdict())

    def decode(self, request: dict) -> None:
        """Compute what is missing of a decode run, batch by batch."""
        from engine.decode.work import decode

        reset_peak()
        self.doing = request["id"]
        decode(self, request)

    def trace(self, request: dict) -> None:
        """One layer's and KV head's evictions in one sample."""
        from engine.decode.work import trace

        self.say(request["id"], "trace", trace(self, request))


class Lane:
    """One stream of batches: a run, its control, or one layer of its scan."""

    def __init__(self, name: str, spec: Any, copies: list, layer: int | None, have: set):
        self.name, self.spec, self.layer = name, spec, layer
        self.missing, self.broken = missing(copies, spec.settings.batch, have, layer)


def lane_code(spec: Any) -> Any:
    """The module that sweeps with this memory: through a cache that forgets, or read at once."""
    if evicts(spec):
        from engine.eviction import phase

        return phase
    from engine.run import sweep

    return sweep


def tokens_read(batch: Any) -> int:
    """Tokens of a batch's copies, answers included."""
    lengths = batch.answers.column("length").to_pylist()
    answers = batch.answers.column("token_ranks").to_pylist()
    return sum(lengths) + sum(map(len, answers))


def missing(copies: list, size: int, have: set, layer: int | None) -> tuple[list, bool]:
    """The copies of every batch that is not stored whole, and whether some are stored in part.

    A broken batch is redone whole: with another number of rows the same copy has other bits.
    """
    from engine.run.sweep import batches

    wanted, broken, mark = [], False, -1 if layer is None else layer
    for batch in batches(copies, size):
        stored = [(copy.sample, copy.shift, mark) in have for copy in batch]
        if not all(stored):
            wanted += batch
            broken |= any(stored)
    return wanted, broken


def expected_rows(spec: Any, copies: list, scanned: int) -> dict[str, int]:
    """How many rows a whole run has: answers (with the scan's `scanned` copies) and tokens."""
    each = {
        "all": lambda copy: len(copy.tokens) + len(copy.answer) - 1,
        "scored": lambda copy: len(copy.answer),
        "answers": lambda copy: 0,
    }[spec.settings.rows]
    tokens = sum(map(each, copies))
    rows = len(copies) + scanned
    return {"copies": rows, "answers": rows, "tokens": tokens}


def reason(error: Exception, request: dict) -> str:
    """One sentence for the user; the traceback goes to the log."""
    from engine.registry import SpecError

    if isinstance(error, SpecError):
        return str(error)
    said = str(error).lower()
    if isinstance(error, MemoryError) or any(words in said for words in SHORT):
        from engine.shortage import told

        return told(request["spec"], request["do"] in JOBS)
    text = (str(error).strip().splitlines() or ["no reason given"])[0]
    return f"the computation failed ({type(error).__name__}: {text[:300]}); the log has more"


def _spec(values: dict) -> Any:
    from engine.kinds import read_spec

    return read_spec(values)
