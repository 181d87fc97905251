"""A decode run inside a bundle: which tables it has, and what no decode run could have written.

Knows a decode run's rows and spec.  The file format is in `bundles`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.eviction.spec import method_of
from engine.store.decode import PARTS, receipts, schemas
from engine.store.ledger import Run
from engine.store.store import Store

NAMES = (
    *("decode_steps", "decode_answers", "decode_marks", "decode_costs", "decode_texts"),
    "decode_parts",
)
CERTAIN = 1e-3  # by how much rounding may lift the logarithm of a probability above 0
LARGEST = 1 << 40  # of a count of bytes; every other whole number fits 32 bits
SHARES = ("retained",)
TIMES = (
    "prefill_seconds",
    "decode_seconds",
    "event_ms",
    "step_ms",
    "observe_ms",
    "fps_ms",
    "resident_mean",
)


def columns() -> dict[str, pa.Schema]:
    return {**schemas(), "decode_parts": PARTS}


def tables(store: Store, run: Run) -> dict[str, pa.Table]:
    """Everything that is stored of a run, its receipts among it."""
    found = {name: store.decode_table(run.id, name) for name in schemas()}
    return found | {"decode_parts": store.decode_parts(run.id)}


def unsound(tables: dict[str, pa.Table], about: dict, spec: Any) -> str:
    """What no run of this spec could have written, or "": statistics must trust stored rows."""
    from engine.eviction.rows import ENDS, WITHIN

    for name, rows in tables.items():
        problem = _rows(name, rows, spec)
        within = WITHIN.get(name, ())
        key = ["arm", "sample", *within]
        if not problem and rows.group_by(key).aggregate([]).num_rows != rows.num_rows:
            problem = "a row is there twice"
        if problem:
            return f"{name}: {problem}"
    texts = tables["decode_texts"]["ended"]
    if not pc.all(pc.is_in(texts, pa.array(ENDS))).as_py() and len(texts):
        return "decode_texts: ended is neither stop nor cap"
    facts = {name: rows for name, rows in tables.items() if name != "decode_parts"}
    parts = tables["decode_parts"]
    places = list(zip(parts["arm"].to_pylist(), parts["sample"].to_pylist(), strict=True))
    own = receipts(facts, places)
    if sum(sum(own[n].to_pylist()) for n in PARTS.names[2:]) != sum(map(len, facts.values())):
        return "a row belongs to no part"
    return _about(about["provenance"], spec)


def _rows(table: str, rows: pa.Table, spec: Any) -> str:
    from engine.eviction.rows import MAY_BE_NULL

    limits = {"arm": spec.arm_count, "sample": spec.samples}
    if not rows.num_rows:
        return ""
    may_be_null = MAY_BE_NULL.get(table, ())
    for name in rows.column_names:
        column = rows.column(name)
        lists = pa.types.is_list(column.type)
        flat = pc.list_flatten(column) if lists else column
        if (column.null_count or flat.null_count) and name not in may_be_null:
            return f"{name} has empty cells"
        flat = pc.drop_null(flat)
        if not len(flat):
            continue
        if pa.types.is_floating(flat.type) and not pc.all(pc.is_finite(flat)).as_py():
            return f"{name} is not finite"
        if not (pa.types.is_integer(flat.type) or pa.types.is_floating(flat.type)):
            continue
        low, high = pc.min_max(flat).as_py().values()
        if name in limits and not 0 <= low <= high < limits[name]:
            return f"{name} is not from 0 to {limits[name] - 1}"
        if name == "logprob" and high > CERTAIN:
            return "logprob is above 0"
        if name in SHARES and not 0 <= low <= high <= 1.001:
            return f"{name} is no share"
        if (pa.types.is_integer(flat.type) or name in TIMES) and not 0 <= low <= high < LARGEST:
            return f"{name} is out of range"
    return ""


def _about(made: dict, spec: Any) -> str:
    """The arms that are kept with a run: one each, with numbers."""
    if "arms" not in made and "prompt_tokens" not in made:
        return ""  # a run that was stopped before it began
    arms, length = made.get("arms"), made.get("prompt_tokens")
    if not _count(length) or not isinstance(arms, list) or len(arms) != spec.arm_count:
        return "its arms are not those of its spec"
    for index, arm in enumerate(arms):
        if not isinstance(arm, dict) or not {"budget", "own_budget", "bytes"} <= set(arm):
            return f"arm {index} lacks its numbers"
        asked, own = arm["budget"], arm["own_budget"]
        drops = hasattr(method_of(spec, index), "budget")  # a pooled memory has none of its own
        whole = asked is None if index == 0 else _count(asked)
        whole &= _count(own) if drops else own is None
        if not whole or not _count(arm["bytes"], LARGEST):
            return f"the numbers of arm {index} are out of range"
    if not _count(made.get("parameters", 1), LARGEST):
        return "parameters is out of range"
    return ""


def _count(value: Any, most: int = 2**31) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < most
