"""What comparisons keep of runs between two requests, and a run as one column of a comparison.

Knows the ledger's row of a run.  Knows no statistic and no HTTP.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from engine.kinds import SWEEP
from engine.store import Run

KEPT = 256  # sheets, tests and reports


class Kept:
    """What was computed of rows, by run and stamp; the oldest are dropped."""

    def __init__(self, most: int = KEPT):
        self._items: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock, self.most = threading.Lock(), most

    def get(
        self, place: Hashable, make: Callable[[], Any], lasting: Callable[[Any], Any] = lambda _: 1
    ) -> Any:
        """What is kept there, or what `make` makes; kept where it is `lasting`."""
        with self._lock:
            if place in self._items:
                self._items.move_to_end(place)
                return self._items[place]
        made = make()
        if not lasting(made):
            return made
        with self._lock:
            self._items[place] = made
            while len(self._items) > self.most:
                self._items.popitem(last=False)
        return made


class Line(NamedTuple):
    """One column of the comparison.  `of`: the run whose control this is."""

    run: Run
    spec: Any  # None where this version no longer reads it
    values: dict
    phrase: str
    of: Run | None
    stamp: str

    @property
    def key(self) -> str:
        return self.run.key

    @property
    def sweep(self) -> bool:
        return self.run.kind == SWEEP and self.spec is not None

    @property
    def place(self) -> tuple:
        return self.run.id, self.stamp
