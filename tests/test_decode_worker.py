"""What the worker of a decode run hears and says between two forwards."""

from __future__ import annotations

from collections import deque

import decode_runs
import pytest
import tiny
from test_decode_plan import FACTS

from engine.decode import work as decode_work
from engine.eviction.rows import TABLES
from engine.specs import SweepSpec
from engine.worker import Cancelled, Office


class Pipe:
    """What a service would have sent, and what the worker says."""

    def __init__(self, *sent: dict):
        self.sent, self.said = deque(sent), []

    def poll(self) -> bool:
        return bool(self.sent)

    def recv(self) -> dict:
        return self.sent.popleft()

    def send(self, event: tuple) -> None:
        self.said.append(event)


def test_a_pulse_hears_a_cancel_and_lets_everything_else_wait():
    asked = [{"do": "map", "id": -2}, {"do": "sweep", "id": 8}, {"do": "cancel", "id": 6}]
    office = Office(Pipe(*asked))
    office.doing = 7
    office.pulse()  # a cancel of a job that has ended
    assert office.waiting == asked[:2]
    office.pipe.sent.append({"do": "cancel", "id": 7})
    with pytest.raises(Cancelled):
        office.pulse()


def test_small_requests_are_served_between_batches_and_jobs_wait(monkeypatch):
    served = []
    monkeypatch.setattr(Office, "serve", lambda self, request: served.append(request["id"]))
    office = Office(Pipe({"do": "trace", "id": -2}, {"do": "decode", "id": 9}))
    office.pulse()
    assert served == []
    office.pipe.sent.append({"do": "map", "id": -3})
    office.between()
    assert served == [-2, -3]
    assert [request["id"] for request in office.waiting] == [9]


def test_a_trace_says_how_far_it_is_and_ends_when_nobody_waits(monkeypatch):
    from engine.eviction import trace as module

    def trace(*asked, step):
        step(10, 40)
        office.pipe.sent.extend([{"do": "cancel", "id": 7}, {"do": "cancel", "id": -2}])
        step(20, 40)
        raise AssertionError("nobody waits for it")

    monkeypatch.setattr(module, "trace", trace)
    monkeypatch.setattr(Office, "loaded", lambda self, model: None)
    office = Office(Pipe())
    office.doing = 7  # a job, at one of whose pauses the trace is made
    place = dict.fromkeys(("arm", "sample", "layer", "kv_head", "top", "far"), 0)
    about = {"spec": decode_runs.make().to_dict(), "continuation": None}
    office.serve({"do": "trace", "id": -2} | place | about)
    assert office.pipe.said == [
        (-2, "step", (10, 40)),
        (-2, "step", (20, 40)),
        (-2, "cancelled", None),
    ]
    with pytest.raises(Cancelled):  # the job's own end came meanwhile
        office.pulse()


def test_a_decode_says_plan_batches_and_done(monkeypatch):
    from engine.eviction import sweep

    made, calls = decode_runs.make(), []

    def decode(spec, loaded, samples, have, pulse):
        calls.append((spec, samples, have))
        pulse()
        for arm, group in decode_runs.batches(spec)[-2:]:
            rows = decode_runs.tables(spec, arm, group)
            yield sweep.DecodeBatch(arm, tuple(group), rows, 50)

    class Desk(Office):
        def loaded(self, model):
            return None

        def provenance(self, spec):
            return {"seed": spec.seed}

    monkeypatch.setattr(sweep, "decode", decode)
    monkeypatch.setattr(decode_work, "prompts", lambda spec: ["prompt"] * spec.samples)
    monkeypatch.setattr(decode_work, "about_run", lambda spec, samples: {"prompt_tokens": 400})
    desk = Desk(Pipe())
    desk.serve({"do": "decode", "id": 4, "spec": made.to_dict(), "have": {(0, 0), (1, 0)}})
    ids, kinds, contents = zip(*desk.pipe.said, strict=True)
    assert set(ids) == {4}
    assert kinds == ("planned", "batch", "batch", "done")
    assert contents[0] == {"parts": 15, "left": 13, "about": {"prompt_tokens": 400}}
    assert (contents[1]["arm"], contents[1]["samples"], contents[1]["tokens"]) == (3, (2,), 50)
    assert set(contents[1]["tables"]) == set(TABLES)
    assert contents[-1] == {"provenance": {"seed": 0, "prompt_tokens": 400}}
    assert calls[0][2] == {(0, 0), (1, 0)}


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 20 GiB",
        "[enforce fail at alloc_cpu.cpp:119] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 96000000000 bytes. Error code 12 (Cannot allocate memory)",
    ],
    ids=["cuda", "cpu"],
)
@pytest.mark.parametrize(
    ("do", "says"),
    [
        ("decode", "a batch of 1 needs about"),
        ("sweep", "a batch of 2 needs about"),
        ("trace", "a shorter prompt or bfloat16 needs less"),
    ],
)
def test_a_lack_of_memory_is_told_with_the_estimate(monkeypatch, do, says, message):
    from engine.models import loader

    def fail(self, request):
        raise RuntimeError(message)

    monkeypatch.setattr(Office, do, fail)
    monkeypatch.setattr(loader, "facts", lambda model: FACTS)
    monkeypatch.setattr(loader, "load_tokenizer", lambda model: tiny.make_tokenizer())
    made = SweepSpec.from_dict({"samples": 2}) if do == "sweep" else decode_runs.make()
    office = Office(Pipe())
    office.serve({"do": do, "id": 4, "spec": made.to_dict()})
    ((_, kind, content),) = office.pipe.said
    assert (kind, content["reason"].startswith("there was not enough memory")) == ("failed", True)
    assert says in content["reason"]
    assert ("the run's estimate is" in content["reason"]) == (do != "trace")


def test_a_lack_of_memory_is_told_where_no_estimate_can_be_made(monkeypatch):
    def fail(self, request):
        raise MemoryError

    monkeypatch.setattr(Office, "decode", fail)
    office = Office(Pipe())
    spec = decode_runs.make(model={"id": "nowhere/gone"}).to_dict()
    office.serve({"do": "decode", "id": 4, "spec": spec})
    ((_, kind, content),) = office.pipe.said
    assert (kind, content["reason"].startswith("there was not enough memory")) == ("failed", True)
