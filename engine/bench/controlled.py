"""How long a benchmark of one controlled model takes, from its spec to its report.

Only the model's own pass is counted, as a family shares its controls; the control's is told beside.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

MODEL, SAMPLES = "w8s8-dense", 288


def missing() -> str:
    """Why it cannot be measured here, or ""."""
    from engine.models.controlled import shelf

    return f"{MODEL} is not here; run `phasescope train {MODEL}`" if shelf.missing(MODEL) else ""


def measure() -> list[tuple]:
    """Rows (name, value, unit, goal, ok) of `phasescope bench`."""
    from engine.build import build
    from engine.models.loader import load_model
    from engine.run.sweep import sweep

    spec = spec_of(SAMPLES)
    loaded = load_model(spec.model)
    start = time.perf_counter()
    copies = build(spec, loaded.tokenizer, loaded.facts)
    answers = answers_of(sweep(spec, loaded, copies))
    swept = time.perf_counter()
    report_of(spec, answers)
    own = time.perf_counter() - start
    told = f"{spec.settings.modulus} residues × {SAMPLES} samples"
    tokens = sum(len(copy.tokens) for copy in copies)
    few = copies[: 4 * spec.settings.modulus]
    alone = replace(spec, settings=replace(spec.settings, batch=1))
    together = _timed(lambda: list(sweep(spec, loaded, few)))
    single = _timed(lambda: list(sweep(alone, loaded, few)))
    gain = single / together
    return [
        (f"benchmark of one controlled model, {told}", own, "s", "≤ 20", own <= 20),
        ("its sweep", tokens / (swept - start), "tok/s", "", None),
        ("one at a time ÷ copies in batches of 24", gain, "×", "≥ 3", gain >= 3),
    ]


def spec_of(samples: int) -> Any:
    from engine.presets import family_presets
    from engine.specs import SweepSpec

    return SweepSpec.from_dict(family_presets()[MODEL].spec | {"samples": samples})


def answers_of(batches: Any) -> Any:
    import pyarrow as pa

    return pa.concat_tables([batch.answers for batch in batches]).to_pandas()


def report_of(spec: Any, answers: Any) -> dict:
    from engine.analysis.report import report

    return report(
        answers,
        None,
        modulus=spec.settings.modulus,
        strides=spec.memory.strides(),
        window=spec.memory.window,
        measure=spec.settings.measure,
        protocol=spec.settings.protocol,
        chance=spec.task.chance(spec.settings.measure),
        adjacent_pairs=True,
    )


def _timed(work: Any) -> float:
    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
