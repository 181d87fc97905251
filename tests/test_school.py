"""Who trains at once, and what Ctrl-C ends, with processes that only pretend."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar

import pytest
from test_training import member, own_place  # noqa: F401

from engine.models.controlled import ledger, school


class Pupil:
    """A process that lives for one look, and how many do at once."""

    alive: ClassVar[list] = []
    most: ClassVar[list] = []
    pid, exitcode, ended = 1, 0, False

    def __init__(self, target, args):
        self.device, self.looks = args[2], 0

    def start(self):
        self.alive.append(self)
        self.most.append(len(self.alive))

    def is_alive(self):
        self.looks += 1
        if self.looks > 2:
            self.alive.remove(self)
        return self.looks <= 2

    def terminate(self):
        self.ended, self.exitcode = True, -15

    def join(self, timeout):
        assert self.ended


@pytest.mark.parametrize(("device", "most"), [("cuda", 1), ("cpu", 3)])
def test_on_a_gpu_one_process_trains_at_a_time(tmp_path, monkeypatch, device, most):
    monkeypatch.setattr(Pupil, "alive", [])
    monkeypatch.setattr(Pupil, "most", [])
    monkeypatch.setattr(school, "get_context", lambda how: SimpleNamespace(Process=Pupil))
    monkeypatch.setattr(school.time, "sleep", lambda seconds: None)
    ends = school.teach([member(f"m{i}") for i in range(4)], tmp_path, 3, device)
    assert (len(ends), max(Pupil.most)) == (4, most)


def test_ctrl_c_ends_a_process_that_has_begun_nothing(tmp_path, monkeypatch):
    def stop(now):
        raise KeyboardInterrupt

    monkeypatch.setattr(Pupil, "alive", [])
    monkeypatch.setattr(school, "get_context", lambda how: SimpleNamespace(Process=Pupil))
    with pytest.raises(KeyboardInterrupt):
        school.teach([member("pupil")], tmp_path, 1, watch=stop)
    assert "code -15 before it began" in ledger.ended()[-1]["reason"]
