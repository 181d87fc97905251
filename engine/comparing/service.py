"""GET /compare: two to eight stored runs side by side, from their reports and their rows.

Finds the runs and the baseline, says which pairs differ in what, keeps what was computed.  The
statistics are `engine.analysis.compare`'s.
"""

from __future__ import annotations

import functools
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse

from engine.analysis import compare, compare_decode, compare_fields, compare_words
from engine.closeup import find
from engine.comparing import foreign as comparing_kvpress
from engine.comparing import lines
from engine.comparing import text as comparing_text
from engine.comparing import vary as varying
from engine.comparing.kept import Kept, Line
from engine.kinds import DECODE, KVPRESS, SWEEP
from engine.kvpress import pairs as kvpress_pairs
from engine.owner import Engine
from engine.registry import FieldError, SpecError
from engine.results import ACTIVE, clean
from engine.store import Run

MOST = 8
READ = ("task", "seed")  # else two decode runs are not paired
SAME = ("task", "seed", "protocol", "modulus", "measure")  # else two sweeps are not paired
NOUNS = {DECODE: "a decode run", KVPRESS: "an import from kvpress", SWEEP: "a sweep"}


def add_to(app: FastAPI, engine: Engine) -> None:
    kept = Kept()
    comparing_text.add_to(app, engine)
    varying.add_to(app, engine)

    @app.get("/compare")
    def compare_runs(keys: str = "", base: str = "") -> JSONResponse:
        return JSONResponse(clean(Comparison(engine, kept, split(keys), base.strip()).made()))


def split(keys: str) -> list[str]:
    """Keys as "k1,k2"; refused where there are too many, or one twice."""
    found = [key.strip() for key in keys.split(",") if key.strip()]
    if not found:
        raise SpecError(FieldError("keys", f"is empty; give 2 to {MOST} runs, as in keys=K1,K2"))
    if len(found) > MOST:
        told = f"{len(found)} runs; at most {MOST} are compared at once"
        raise SpecError(FieldError("keys", told))
    twice = next((key for i, key in enumerate(found) if key in found[:i]), None)
    if twice:
        raise SpecError(FieldError("keys", f"{twice[:40]} is there twice"))
    return found


def mixed(one: Line, other: Line) -> str:
    """Why two runs of two kinds have no paired differences; "" where they are of one."""
    kinds = {one.run.kind, other.run.kind}
    told = " and ".join(noun for kind, noun in NOUNS.items() if kind in kinds)
    return f"{told} share no measure" if len(kinds) > 1 else ""


class Comparison:
    def __init__(self, engine: Engine, kept: Kept, keys: list[str], base: str = ""):
        self.engine, self.kept = engine, kept
        self.results, self.store = engine.results, engine.store
        asked = [self._line(find(engine, key)) for key in keys]
        self._frames: dict[int, Any] = {}
        at, line = self._base(asked, base)
        self.base_is_control = line.of is not None
        rest = [one for i, one in enumerate(asked) if self.base_is_control or i != at]
        self.lines, self.base = [line, *rest], line

    # ---- which runs

    def _line(self, run: Run, of: Run | None = None) -> Line:
        """A finished run's rows stay as they are; those of one at work are counted again."""
        known = self.kept.get(("spec", run.key), lambda: self._read(run.key), lambda k: k[1])
        stamp = self.results.stamp(run) if run.status in ACTIVE else run.finished
        stamp = f"{run.status} {run.answers_stored} {run.noise_floor} {run.control_run} {stamp}"
        return Line(run, known[1], known[0], known[2], of, stamp)

    def _read(self, key: str) -> tuple[dict, Any, str]:
        """The spec as a dict and read, and its memory in words; a key never changes its spec."""
        return self.store.spec(key) or {}, self.results.spec(key), self.store.phrase(key)

    def _control(self, asked: list[Line]) -> Line | None:
        """The control that all runs share, where it is stored."""
        owners = [line for line in asked if line.sweep and line.spec.control is not None]
        keys = {line.spec.control.key for line in owners}
        others = [line for line in asked if line not in owners]
        if len(keys) != 1 or any(line.key not in keys for line in others):
            return None
        return self._control_of(owners)

    def _control_of(self, owners: list[Line]) -> Line | None:
        for line in owners:
            if line.run.control_run is not None:
                return self._line(self.store.run(line.run.control_run), line.run)
        return None

    def _base(self, asked: list[Line], base: str) -> tuple[int, Line]:
        """The baseline and its place among the runs asked for, −1 where it is none of them.

        Of runs of several kinds it is of the kind that most are of, and of those one whose curve
        most share, so that most are compared.
        """
        keys = [line.key for line in asked]
        if base:
            if len(keys) == 1 and base in keys and asked[0].run.kind != DECODE:
                told = f"{base[:40]} is the one run asked for; give a second, or no baseline"
                raise SpecError(FieldError("base", told))
            if base in keys:
                return keys.index(base), asked[keys.index(base)]
            owners = [
                line
                for line in asked
                if line.sweep and line.spec.control and line.spec.control.key == base
            ]
            found = self._control_of(owners)
            if found:
                return -1, found
            told = f"{base[:40]} is none of the compared runs, nor the control of one"
            raise SpecError(FieldError("base", told))
        alike = lines.most(asked, lines.kind)
        some = lines.most(alike, lines.curve_of)
        alike = some if len(some) > 1 else alike
        control = self._control(alike)
        if control is not None:
            if control.key in keys:
                return keys.index(control.key), asked[keys.index(control.key)]
            return -1, control
        if len(asked) == 1 and asked[0].run.kind != DECODE:
            told = f"{keys[0]} alone has no control to stand beside; give a second run"
            raise SpecError(FieldError("keys", told))
        found = next(filter(lines.keeps_all, alike), alike[0])
        return asked.index(found), found

    # ---- the answer

    def made(self) -> dict:
        shared = self._shared_stride()
        blocks = [self._block(line) for line in self.lines]
        names = lines.names(self.lines)
        runs = [
            lines.entry(self, line, block, name, shared)
            for line, block, name in zip(self.lines, blocks, names, strict=True)
        ]
        rows = self._rows()
        flat = compare.adjust([row for measure in rows.values() for row in measure])
        count = sum(row["p"] is not None for row in flat)
        made = {
            "base": self.base.key,
            "base_is_control": self.base_is_control,
            "runs": runs,
            "fields": compare_fields.table(
                [line.values for line in self.lines], lines.labels(), lines.defaults()
            ),
            "measures": [
                {
                    "name": name,
                    "label": compare_words.label(name, self._measure()),
                    "rows": rows[name],
                }
                for name in rows
            ],
            "adjusted": f"Holm, {count} comparison{'' if count == 1 else 's'}",
            "axes": lines.axes(self.lines, runs, rows),
        }
        made["finding"], made["doubt"] = compare_words.say(made, self._between(runs, count))
        made["warnings"] = self._warned(runs)
        return made

    def _measure(self) -> str:
        """What the first run that has a mean is measured by, the baseline before others."""
        return next(filter(None, map(lines.measure, self.lines)), "")

    def _shared_stride(self) -> int | None:
        """By which a memory without a grid is folded: that of all the others, if they have one."""
        strides = {line.spec.stride for line in self.lines if line.sweep and line.spec.stride}
        return strides.pop() if len(strides) == 1 else None

    def _block(self, line: Line) -> dict:
        """The numbers of a run; of a control those that its run's report has of it."""
        if line.of is not None:
            block = self._report(self._line(line.of)).get("control")
            return block or self._report(line)
        return self._report(line)

    def _report(self, line: Line) -> dict:
        make = functools.partial(self.results.report, line.run)
        if line.run.status in ACTIVE:
            return make()
        return self.kept.get(("report", *line.place), make, lambda made: made["n_samples"])

    def sheet(self, line: Line) -> compare.Sheet:
        settings = line.spec.settings
        shape = settings.modulus, settings.measure, line.spec.stride

        def make() -> compare.Sheet:
            answers = self.store.answers(line.run.id)
            self.kept.get(("length", *line.place), lambda: lines.length(answers))
            return compare.sheet(answers, *shape)

        return self.kept.get(("sheet", *line.place, *shape), make)

    def folded(self, line: Line, stride: int | None) -> dict:
        seed = line.spec.settings.seed
        return self.kept.get(
            ("folded", *line.place, stride, seed),
            lambda: compare.folded_numbers(self.sheet(line), stride, seed),
        )

    def length(self, line: Line) -> int | None:
        """Tokens of a prompt, as its rows tell; read together with them."""
        self.sheet(line)
        where = ("length", *line.place)
        return self.kept.get(where, lambda: lines.length(self.store.answers(line.run.id)))

    def tests(self, line: Line, base: Line) -> tuple[dict[str, dict], int]:
        """The tests of one run less another, and how many of their prompts are other ones."""

        def make() -> tuple[dict[str, dict], int]:
            run, other = self.sheet(line), self.sheet(base)
            seed = base.spec.settings.seed
            return compare.differences(run, other, seed), compare.common(run, other).other

        return self.kept.get(("tests", line.place, base.place), make)

    def scored(self, line: Line, base: Line) -> tuple[dict | None, str]:
        """Two imported evaluations: the test of their means, or why there is none."""

        def make() -> tuple[dict | None, str]:
            found = self._predictions(line), self._predictions(base)
            return kvpress_pairs.difference(*found, line.values, base.values)

        return self.kept.get(("scored", line.place, base.place), make)

    def _predictions(self, line: Line) -> Any:
        """Rows of an import, read once for all that are compared with it."""
        if line.run.id not in self._frames:
            self._frames[line.run.id] = self.store.predictions(line.run.id).to_pandas()
        return self._frames[line.run.id]

    # ---- pairs

    def unpaired(self, line: Line, base: Line) -> str:
        """Why two runs have no paired differences, or ""."""
        if why := mixed(line, base):
            return why
        for one in (line, base):
            if one.spec is None:
                return f"{one.key} is of an older version that is no longer read"
        if line.run.kind == KVPRESS:
            return self.scored(line, base)[1]
        fields = READ if line.run.kind == DECODE else SAME
        differ = compare_fields.unlike(line.values, base.values, fields)
        if differ:
            return compare_fields.reason(line.values, base.values, differ, lines.labels())
        if line.run.kind == DECODE:
            lacking = (one.key for one in (line, base) if not self.decoded(one).arms)
            return next((f"{key} has no rows yet" for key in lacking), "")
        for one in (line, base):
            if not len(self.sheet(one).samples):
                return f"{one.key} has no prompt that was measured at every residue"
        if not len(compare.common(self.sheet(line), self.sheet(base)).first):
            return "samples differ: the two runs share no prompt"
        return ""

    def _rows(self) -> dict[str, list[dict]]:
        found: dict[str, list[dict]] = {}
        kinds = {line.run.kind for line in self.lines}
        if kinds - {DECODE}:
            found |= self._means(compare.MEASURES if SWEEP in kinds else compare.MEASURES[:1])
        if DECODE in kinds:
            found |= self._decoded()
        return found

    def _means(self, names: tuple[str, ...]) -> dict[str, list[dict]]:
        """Sweeps and imports against the baseline; an import has a mean and no phases."""
        found: dict[str, list[dict]] = {name: [] for name in names}
        for line in self.lines[1:]:
            if {line.run.kind, self.base.run.kind} == {DECODE}:
                continue  # compared by what decode runs have
            why = self.unpaired(line, self.base)
            foreign = line.run.kind == KVPRESS
            tests = {}
            if not why:
                swept = () if foreign else self.tests(line, self.base)[0]
                tests = {"mean": self.scored(line, self.base)[0]} if foreign else swept
            for name in names:
                own = why
                if not why and name != "mean" and foreign:
                    own = comparing_kvpress.ELSEWHERE
                elif not why and name != "mean" and line.spec.settings.protocol == "pair":
                    own = "a document pair has two copies and no phases"
                found[name].append(lines.row(line.key, None if own else tests[name], own))
        return found

    def _decoded(self) -> dict[str, list[dict]]:
        """Methods against their like; of a run alone, against its own full cache."""
        found: dict[str, list[dict]] = {name: [] for name in compare_decode.MEASURES}
        for line in self.lines[1:] or self.lines:
            base = None if line is self.base else self.base
            if DECODE not in (line.run.kind, self.base.run.kind):
                continue
            why = self.unpaired(line, base or line)
            tests = {} if why else self.arm_tests(line, base)
            for name in compare_decode.MEASURES:
                blank = [lines.row(line.key, None, why)]
                own = [{"key": line.key} | row for row in tests.get(name, ())]
                found[name] += blank if why else own
        return found

    def decoded(self, line: Line) -> compare_decode.Rows:
        return self.kept.get(("decoded", *line.place), lambda: lines.decoded(self.store, line))

    def arm_tests(self, line: Line, base: Line | None) -> dict[str, list[dict]]:
        def make() -> dict[str, list[dict]]:
            other = base and self.decoded(base)
            return compare_decode.differences(self.decoded(line), other)

        made = self.kept.get(("arms", line.place, base and base.place), make)
        return {name: [dict(row) for row in rows] for name, rows in made.items()}

    def _between(self, runs: list[dict], tests: int) -> dict | None:
        """The run with the best worst phase against the one with the worst, where they pair.

        A full cache as baseline is what memories are measured by, and none of them.  The pair was
        chosen by looking: p is multiplied by as many as could have been, or by `tests` if more.
        """
        if not self.base.sweep:
            return None
        full = self.base_is_control or self.base.spec.memory.kind == "full"
        known = [
            (run["numbers"]["worst"], line)
            for run, line in zip(runs, self.lines, strict=True)
            if run["numbers"]["worst"] is not None
            and not (full and line is self.base)
            and not self.unpaired(line, self.base)
        ]
        if len(known) < 2:
            return None
        best = max(known, key=lambda pair: pair[0])[1]
        poor = min(known, key=lambda pair: pair[0])[1]
        if best is poor:
            return None
        apart = compare_fields.unlike(best.values, poor.values, ("memory", *SAME))
        found = {name: dict(test) for name, test in self.tests(best, poor)[0].items()}
        times = max(len(known) * (len(known) - 1), tests)
        for test in found.values():
            sure = test["p"] * times < compare.LEVEL
            test["resolved"] = sure and compare.excludes_zero(test)
        alike = not set(apart) - {"memory.window", "memory.stride"}
        return {"best": best.key, "worst": poor.key, "tests": found, "alike": alike}

    def _warned(self, runs: list[dict]) -> list[str]:
        told, names = [], {run["key"]: run["name"] for run in runs}
        for line, run in zip(self.lines, runs, strict=True):
            if run["status"] != "done" and line.of is None:
                stored = self.store.counts(line.run.id).answers
                share = f"{stored} of {line.run.answers_expected} rows"
                doing = "is at work" if run["status"] in ACTIVE else f"is {run['status']}"
                told.append(f"{run['name']} {doing}: {share} so far.")
        told += compare_words.of_older_code(runs)
        apart: dict[str, list[str]] = {}
        for line in self.lines[1:]:
            foreign = KVPRESS in (line.run.kind, self.base.run.kind)
            if foreign and (why := self.unpaired(line, self.base)):
                apart.setdefault(why, []).append(names[line.key])
            if foreign or not (line.sweep and self.base.sweep):
                continue
            if why := self.unpaired(line, self.base):
                apart.setdefault(why, []).append(names[line.key])
                continue
            moved = self.tests(line, self.base)[1]
            have = [len(self.sheet(one).samples) for one in (line, self.base)]
            both = len(compare.common(self.sheet(line), self.sheet(self.base)).first)
            if moved:
                told.append(
                    f"{names[line.key]}: {moved} of {both} prompts stand at other places than in "
                    f"{compare_words.the(runs[0])}; they are paired by their number."
                )
            if both < max(have):
                told.append(
                    f"{names[line.key]} has {have[0]} whole prompts and "
                    f"{compare_words.the(runs[0])} {have[1]}: paired on the {both} of both."
                )
        if list(map(len, apart.values())) == [len(self.lines) - 1]:
            return told  # all for one reason: the doubt says it
        return told + compare_words.not_paired(apart)
