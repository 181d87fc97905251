"""The service's one line of work: jobs in order, one worker, every state written down.

Knows the ledger's states, the worker's events, and what to do when a worker dies.  Knows nothing of
models or HTTP.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.decode import jobs as decode_jobs
from engine.jobs import Making, Progress, SmallRequest, add_costs, renew
from engine.kinds import DECODE, evicts, kind_of
from engine.registry import FieldError, SpecError
from engine.results import ACTIVE, Results
from engine.shortage import if_killed
from engine.specs import SweepSpec
from engine.store import Job, Run, Store
from engine.store.ledger import STOPPED, shortage
from engine.version import run_version
from engine.worker import Event, Worker, WorkerDied

GRACE = 10.0  # seconds from a cancel to the kill
TICK = 0.05
log = logging.getLogger("phasescope")


class JobFailed(Exception):
    """The worker refused or broke; the message is for the user."""


class JobCancelled(Exception):
    pass


@dataclass
class Queue:
    """Runs jobs on a thread of its own; every public method may be called from any thread."""

    store: Store
    results: Results
    worker_log: Path
    grace: float = GRACE
    make_worker: Callable[[Path], Worker] = Worker
    worker: Worker | None = None
    _wake: threading.Condition = field(default_factory=threading.Condition)
    _cancels: set[int] = field(default_factory=set)
    _progress: dict[int, Progress] = field(default_factory=dict)
    _small: dict[SmallRequest, Making] = field(default_factory=dict)
    _errors: dict[SmallRequest, str] = field(default_factory=dict)
    _next_request: int = -1  # requests that are no jobs count downwards
    _stopping: bool = False
    _running: Job | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Set right what a killed service left, then work."""
        self.store.recover()
        self.store.verify_all()
        self._thread = threading.Thread(target=self._loop, name="phasescope-queue", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the worker; what ran is marked failed, what waits stays queued for the next start."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread:
            self._thread.join(timeout=10)
        if self.worker:
            self.worker.kill()
            self.worker = None

    # ---- asked from outside

    @property
    def busy(self) -> bool:
        return self._running is not None

    def submit(self, spec: Any, title: str = "") -> Job:
        """Queue a run; the same run queued or at work already gives the same job."""
        with self._wake, self.store.alone():  # or a run is deleted before its job is written down
            control = self._open(spec.control, asked=False).id if spec.control else None
            run = self._open(spec, asked=True, title=title)
            self.store.change(run.id, control_run=control)
            job = self.store.enqueue(run)
            self._wake.notify_all()
        return job

    def _open(self, spec: Any, asked: bool, title: str = "") -> Run:
        self.store.remember(spec)
        version = run_version(spec.model, evicts(spec))
        return self.store.open_run(spec.key, version, asked, title, kind_of(spec))

    def cancel(self, key: str) -> bool:
        """Cancel the key's waiting or running job; False when there is none."""
        with self._wake:
            found = [j for j in self.store.jobs() if j.key == key and j.state in ACTIVE]
            for job in found:
                if self._running and self._running.id == job.id:
                    self._cancels.add(job.id)
                else:
                    self.store.end_job(job, "cancelled", "cancelled before it began")
            self._wake.notify_all()
        return bool(found)

    def progress(self, run: Run) -> dict:
        live = self._progress.get(run.id)
        if live:
            return live.as_dict()
        control = self.store.run(run.control_run) if run.control_run else None
        parts = [part for part in (run, control) if part]
        total = sum(part.copies for part in parts)
        done = sum(self.store.counts(part.id).answers for part in parts)
        return {"done": done, "total": max(total, done), "seconds_left": None}

    def want(self, wanted: SmallRequest) -> str | None:
        """The side file of a map or trace, or None while it is made; SpecError if it cannot be."""
        found = wanted.find(self.store)
        if found:
            return found
        with self._wake:
            if wanted in self._errors:
                raise SpecError(FieldError(wanted.field, self._errors.pop(wanted)))
            self._small.setdefault(wanted, Making())
            self._wake.notify_all()
        return None

    def making(self, wanted: SmallRequest) -> dict:
        """How far it is, where it is under way."""
        making = self._small.get(wanted)
        return making.as_dict() if making else {}

    def drop(self, wanted: SmallRequest) -> None:
        """Nobody waits for it any more; the worker leaves it at its next step."""
        with self._wake:
            making = self._small.get(wanted)
            if making and making.request:
                making.dropped = True
            else:
                self._small.pop(wanted, None)

    # ---- the thread

    def _loop(self) -> None:
        while not self._stopping:
            try:
                self._turn()
            except Exception:
                # The queue must outlive any bug in one job.
                log.exception("the queue met an unexpected error")
                time.sleep(TICK)

    def _turn(self) -> None:
        with self._wake:
            job = self.store.next_job()
            if job is None and not self._small:
                self._wake.wait(timeout=5)
                return
            if job:
                self._running = job
                self.store.start_job(job)
        if job is None:
            try:
                self._hire()
                self._listen(-1)
            except WorkerDied as death:
                self._bury(str(death))
            return
        try:
            self._do(job)
        finally:
            self._running = None
            self._progress.pop(job.run, None)
            self._cancels.discard(job.id)

    def _do(self, job: Job) -> None:
        """Run one job to one of its ends."""
        state, why, status = "failed", "the job broke off; the log has more", None
        try:
            missing = self._compute(job)
            state, why = "done", ""
            if missing:
                status, why = "incomplete", missing
        except JobCancelled as end:
            state, why = "cancelled", str(end) or "cancelled; the rows computed so far are kept"
        except JobFailed as failure:
            why = str(failure)
        except WorkerDied as death:
            why = str(death)
            self._bury(why)
            if death.killed:
                why += if_killed(self.results.spec(self.store.run(job.run).key))
        except Exception as error:
            log.exception("job %s failed", job.id)
            why = f"the job failed inside the service ({type(error).__name__}); the log has more"
            # The worker knows nothing of it and would go on with this job.
            self._bury(why)
        if self._stopping and state != "done":
            state, why = "failed", STOPPED
        self._settle_control(job, state, why)
        self.store.end_job(job, state, why, status)
        self.store.checkpoint()
        # Kept from now on: a page that opens this run waits for no statistics.
        self.results.report(self.store.run(job.run))

    def _settle_control(self, job: Job, state: str, why: str) -> None:
        """A control's own status: done if all its rows are there, whatever became of the run."""
        control = self.store.run(job.run).control_run
        if control is not None:
            whole = self.store.verify(control)
            values = {"status": "done", "reason": ""} if whole else {"status": state, "reason": why}
            if not whole and state == "done":
                values = {"status": "incomplete", "reason": shortage(self.store.run(control))}
            self.store.change(control, **values)

    def _compute(self, job: Job) -> str:
        """Have the worker compute what is missing; "" or a sentence on rows that are not there."""
        run = self.store.run(job.run)
        spec = self.results.spec(run.key)
        progress = self._progress[run.id] = Progress()
        if run.kind == DECODE:
            return decode_jobs.compute(self, job, run, spec, progress)
        ids = {"run": run.id} | ({"control": run.control_run} if run.control_run else {})
        if (
            run.noise_floor is not None
            and run.written
            and all(map(self.store.verify, ids.values()))
        ):
            return ""
        have = {name: self.store.stored(id) for name, id in ids.items()}
        asked = {"spec": spec.to_dict(), "have": have, "noise_floor": run.noise_floor}
        try:
            for kind, content in self.ask(job, "sweep", **asked):
                if kind == "planned":
                    self._plan(content, ids, progress)
                elif kind == "batch":
                    self._keep(content, ids, progress)
        finally:
            self.book(ids, progress)
        self.store.change(run.id, noise_floor=content["noise_floor"])
        self.sign(ids, progress, content["provenance"])
        broken = [id for id in ids.values() if not self.store.verify(id)]
        self._write(job, spec)
        return shortage(self.store.run(broken[0])) if broken else ""

    def _plan(self, plan: dict, ids: dict[str, int], progress: Progress) -> None:
        for name, rows in plan["rows"].items():
            self.store.change(
                ids[name],
                copies=rows["copies"],
                answers_expected=rows["answers"],
                tokens_expected=rows["tokens"],
            )
        progress.total = sum(rows["copies"] for rows in plan["rows"].values())
        progress.done = progress.total - plan["left"]

    def _keep(self, content: dict, ids: dict[str, int], progress: Progress) -> None:
        answers, tokens, copies = content["batch"]
        self.store.add(ids[content["part"]], answers, tokens, content["replace"])
        progress.spend(content["part"], copies, content["tokens"], content["seconds"])

    def ask(self, job: Job, do: str, **content: Any) -> Iterator[tuple[str, Any]]:
        """What the worker says of a job, (kind, content) by event, until and with its `done`."""
        self._hire().send({"do": do, "id": job.id, **content})
        while True:
            event = self._listen(job.id)
            yield event.kind, event.content
            if event.kind == "done":
                return

    def book(self, ids: dict[str, int], progress: Progress) -> None:
        """Add what a job has cost so far, whatever became of it."""
        for name, (tokens, seconds) in progress.costs.items():
            before = self.store.run(ids[name]).provenance
            self.store.change(ids[name], provenance=add_costs(before, tokens, seconds))

    def sign(self, ids: dict[str, int], progress: Progress, made: dict[str, dict]) -> None:
        """The provenance of what a finished job has computed."""
        for name, now in made.items():
            before = self.store.run(ids[name]).provenance
            if name in progress.costs or not before.get("libraries"):
                self.store.change(ids[name], provenance=renew(before, now))

    def _write(self, job: Job, spec: SweepSpec) -> None:
        """Ask what the model writes at its worst and at its best phase, on the first sample."""
        run = self.store.run(job.run)
        places = self.results.extremes(run)
        if not places:
            return
        first = self.store.answers(run.id)["sample"].min()
        copies = [(int(first), shift) for _, shift in places.values()]
        self._hire().send({"do": "write", "id": job.id, "spec": spec.to_dict(), "copies": copies})
        try:
            while (event := self._listen(job.id)).kind != "written":
                continue
        except JobFailed:
            return  # logged; the numbers are whole without the two texts
        texts = zip(places.items(), event.content, strict=True)
        written = {name: {"phase": phase, "text": text} for (name, (phase, _)), text in texts}
        self.store.change(run.id, written=written)

    def _hire(self) -> Worker:
        if self.worker is None or not self.worker.alive:
            if self.worker:
                self.worker.kill()
            self.worker = self.make_worker(self.worker_log)
        return self.worker

    def _at_work(self) -> Worker:
        """The worker that was asked; never a new one, which would know nothing of the request."""
        if self.worker is None:
            raise WorkerDied("the worker process is gone")
        return self.worker

    def _bury(self, why: str) -> None:
        """After a death: maps and traces asked of it have failed; the next request hires anew."""
        if self.worker:
            self.worker.kill()
            self.worker = None
        with self._wake:
            for wanted, making in list(self._small.items()):
                if making.request:
                    del self._small[wanted]
                    self._errors[wanted] = why

    def _listen(self, id: int) -> Event:
        """The next event of job `id`; serves cancels and small requests meanwhile.

        With id -1 there is no job: listens until all of those are made or a job waits.
        """
        deadline = None
        while True:
            if self._stopping:
                raise JobCancelled
            self._send_small()
            if id in self._cancels and deadline is None:
                self._at_work().send({"do": "cancel", "id": id})
                deadline = time.monotonic() + self.grace
            event = self._at_work().receive(TICK)
            if event is None:
                if deadline and time.monotonic() > deadline:
                    end = (
                        f"cancelled; the worker did not stop within {self.grace:g} s and was ended"
                    )
                    self._bury(end)
                    raise JobCancelled(end)
                if id == -1 and (not self._small or self.store.next_job()):
                    return Event(-1, "idle", None)
                continue
            if event.id < -1:
                self._small_done(event)
            elif event.id == id:
                self._raise_if_over(event)
                return event

    def _raise_if_over(self, event: Event) -> None:
        if event.kind == "cancelled":
            raise JobCancelled
        if event.kind == "failed":
            log.error("worker: %s", event.content["trace"])
            raise JobFailed(event.content["reason"])

    def _send_small(self) -> None:
        with self._wake:
            waiting = [(w, making) for w, making in self._small.items() if not making.request]
            for _, making in waiting:
                self._next_request -= 1
                making.request = self._next_request
            dropped = [m for m in self._small.values() if m.dropped]
        for wanted, making in waiting:
            request = {"do": wanted.do, "id": making.request, **wanted.request(self.store)}
            self._at_work().send(request | {"spec": self.results.spec(wanted.key).to_dict()})
        for making in dropped:
            making.dropped = False
            self._at_work().send({"do": "cancel", "id": making.request})

    def _small_done(self, event: Event) -> None:
        wanted = next((w for w, m in list(self._small.items()) if m.request == event.id), None)
        if wanted is None:
            return
        error = None
        if event.kind == "step":
            self._small[wanted].steps = event.content
            return
        if event.kind == wanted.do:
            wanted.keep(self.store, event.content)
        elif event.kind != "cancelled":
            log.error("worker: %s", (event.content or {}).get("trace"))
            error = (event.content or {}).get("reason", f"the {wanted.do} was not made; ask again")
        with self._wake:
            del self._small[wanted]
            if error:
                self._errors[wanted] = error
