"""Everything that a page or the command line says about one sweep, from its rows (SCIENCE §3).

Aggregates are always recomputed from rows.  While a run goes on, tables show what is there; both
tests use only samples whose every residue is known.  Knows rows and the window grid's numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from engine.analysis import spectrum
from engine.analysis.curve import Curves, curves, fold, mean_of, plain
from engine.analysis.finding import say
from engine.analysis.gap import gap_interval, rotation_test, within_and_boundary
from engine.analysis.intervals import percentile, resample, resampled_means, wilson
from engine.analysis.pair import pair_difference
from engine.analysis.period import TOLERANCE, detect


def report(
    answers: pd.DataFrame,
    control: pd.DataFrame | None,
    *,
    modulus: int,
    strides: tuple[int, ...],
    window: int | None,
    measure: str,
    protocol: str,
    seed: int = 0,
    chance: float | None = None,
    noise_floor: float | None = None,
    note: str = "",
    adjacent_pairs: bool = False,
    control_name: str = "the full cache",
    evicts: bool = False,
) -> dict:
    """The `show` object's numbers, finding and doubt; plain Python values, None where undefined.

    `strides` is () for a memory without a grid, which compresses if it `evicts`; the control is
    read with the same grid.  `chance`: the measure's value for a guess.  `noise_floor`: how far one
    copy's probability moves with its batch; curves that vary no more are constant.
    `adjacent_pairs`: the task asks for a value right behind its key, so that within_gap and
    boundary mean something.
    """
    stride = math.lcm(*strides) if strides else None
    grid = stride and 1 < stride <= modulus and modulus % stride == 0 and protocol != "pair"
    stride = stride if grid else None
    alone = len(set(strides)) == 1 and window == strides[0]
    floor = max(TOLERANCE, (noise_floor or 0.0) if measure != "accuracy" else 0.0)
    if protocol == "pair":
        answers, control = _documents(answers), None if control is None else _documents(control)
    common = {
        "modulus": modulus,
        "stride": stride,
        "split": alone and adjacent_pairs,
        "measure": measure,
        "protocol": protocol,
        "seed": seed,
        "chance": chance,
        "tolerance": floor,
    }
    result = _numbers(answers, **common)
    result["protocol"] = protocol
    result["noise_floor"] = noise_floor
    result["compressed"] = bool(strides) or evicts
    has_control = control is not None and len(plain(control)) > 0
    result["control"] = _numbers(control, **common) if has_control else None
    if protocol == "pair":
        result["pair"] = pair_difference(answers, control if has_control else None, measure, seed)
    result["warnings"] += _warnings(result, strides, stride)
    result = _plain_numbers(result)
    result["finding"], result["doubt"] = say(result, note, control_name)
    return result


def _documents(answers: pd.DataFrame) -> pd.DataFrame:
    """A pair's two documents stand where residues 0 and 1 stand in a sweep."""
    rank = np.unique(answers["shift"].to_numpy(int), return_inverse=True)[1]
    return answers.assign(residue=rank).drop(columns="token_residues", errors="ignore")


def _numbers(
    answers: pd.DataFrame,
    *,
    modulus: int,
    stride: int | None,
    split: bool,
    measure: str,
    protocol: str,
    seed: int,
    chance: float | None,
    tolerance: float,
) -> dict:
    """The block that a run and its control share."""
    cells = curves(answers, modulus, measure)
    n = len(cells.samples)
    counts = resample(n, seed) if n else np.zeros((1, 0))
    residues, draws = _residues(cells, counts, measure)
    values = np.array([row["value"] for row in residues])
    result = {
        "measure": measure,
        "n_samples": n,
        "n_complete": int(cells.complete.sum()),
        "modulus": modulus,
        "residues": residues,
        "shifts": _shifts(cells, counts, measure),
        "folded": _folded(cells.value, stride, counts) if stride else [],
        "tokens": _tokens(cells, stride) if stride else [],
        **_summary(values, draws, n, residues),
        "chance": chance,
        "warnings": [],
    }
    result |= _phases(result["folded"], result["worst_residue"], stride)
    tested = protocol != "pair"
    result |= _tests(cells, stride if tested else None, tested, seed, tolerance)
    result["within_gap"] = result["boundary"] = None
    if split and stride and tested and n:
        result["within_gap"], result["boundary"] = within_and_boundary(
            np.array([row["value"] for row in result["folded"]])
        )
    if missing := n - result["n_complete"]:
        result["warnings"].append(
            f"{missing} of {n} prompts {'lacks' if missing == 1 else 'lack'} residues and "
            f"{'is' if missing == 1 else 'are'} left out of the tests."
        )
    return result


def _residues(cells: Curves, counts: np.ndarray, measure: str) -> tuple[list[dict], np.ndarray]:
    """The table by residue, and the resampled measure [draws, R] behind its intervals."""
    n = len(cells.samples)
    hits = np.where(np.isfinite(cells.correct), cells.correct, 0).sum(axis=0)
    asked = np.isfinite(cells.correct).sum(axis=0)
    right = wilson(hits, asked)
    joint = percentile(resampled_means(cells.joint, counts), n)
    draws = resampled_means(cells.value, counts)
    spread = right if measure == "accuracy" else percentile(draws, n)
    columns = {
        "n": asked,
        "accuracy": mean_of(cells.correct),
        "low": right.low,
        "high": right.high,
        "gold_prob": mean_of(cells.joint),
        "gold_prob_low": joint.low,
        "gold_prob_high": joint.high,
        "gold_logprob": mean_of(cells.logprob),
        "value": mean_of(cells.value),
        "value_low": spread.low,
        "value_high": spread.high,
    }
    return [
        {"residue": r} | {k: c[r] for k, c in columns.items()} for r in range(len(asked))
    ], draws


def _shifts(cells: Curves, counts: np.ndarray, measure: str) -> list[dict]:
    n, value, joint = len(cells.samples), mean_of(cells.shift_value), mean_of(cells.shift_joint)
    if measure == "accuracy":
        known = np.isfinite(cells.shift_value)
        low, high = wilson(np.where(known, cells.shift_value, 0).sum(axis=0), known.sum(axis=0))
    else:
        low, high = percentile(resampled_means(cells.shift_value, counts), n)
    return [
        {
            "shift": int(shift),
            "value": value[i],
            "low": low[i],
            "high": high[i],
            "gold_prob": joint[i],
            "rivals": list(cells.shift_rivals[:, i]),
        }
        for i, shift in enumerate(cells.shifts)
    ]


def _folded(values: np.ndarray, stride: int, counts: np.ndarray) -> list[dict]:
    """The measure by phase; n counts answers, the interval resamples samples."""
    per_sample = fold(values, stride)
    low, high = percentile(resampled_means(per_sample, counts), len(values))
    asked = (
        np.isfinite(values).reshape(len(values), values.shape[1] // stride, stride).sum(axis=(0, 1))
    )
    return [
        {"phase": f, "value": v, "low": low[f], "high": high[f], "n": asked[f]}
        for f, v in enumerate(mean_of(per_sample))
    ]


def _tokens(cells: Curves, stride: int) -> list[dict]:
    """Each answer token by the phase of its own source: a mean over digits hides the gap."""
    return [
        {
            "index": k,
            "folded": [{"phase": f, "prob": v} for f, v in enumerate(mean_of(fold(one, stride)))],
        }
        for k, one in enumerate(cells.tokens)
    ]


def _summary(values: np.ndarray, draws: np.ndarray, n: int, residues: list[dict]) -> dict:
    """Ā, A_min, Δ = max - min, population sigma and Δ/Ā over the residues that are known."""
    names = ("mean", "mean_low", "mean_high", "worst", "worst_low", "worst_high", "worst_residue")
    names += ("gap", "sigma", "relative_gap")
    known = np.isfinite(values)
    if not known.any():
        return dict.fromkeys(names)
    low, high = percentile(mean_of(draws, axis=1), n)
    mean, worst = float(values[known].mean()), int(np.nanargmin(values))
    gap = float(np.ptp(values[known]))
    return {
        "mean": mean,
        "mean_low": low,
        "mean_high": high,
        "worst": values[worst],
        "worst_low": residues[worst]["value_low"],
        "worst_high": residues[worst]["value_high"],
        "worst_residue": worst,
        "gap": gap,
        "sigma": float(values[known].std()),
        "relative_gap": gap / mean if mean > 0 else None,
    }


def _phases(folded: list[dict], worst_residue: int | None, stride: int | None) -> dict:
    """The weakest and the strongest phase of the fold."""
    known = [row for row in folded if np.isfinite(row["value"])]
    if not known:
        phase = worst_residue % stride if stride and worst_residue is not None else None
        return {"worst_phase": phase, "best_phase": None, "worst_folded": None, "best_folded": None}
    worst, best = min(known, key=lambda r: r["value"]), max(known, key=lambda r: r["value"])
    return {
        "worst_phase": worst["phase"],
        "best_phase": best["phase"],
        "worst_folded": worst["value"],
        "best_folded": best["value"],
    }


def _tests(cells: Curves, stride: int | None, tested: bool, seed: int, tolerance: float) -> dict:
    """Both tests and what is drawn beside them, from complete samples only."""
    size = cells.value.shape[1]
    values, parts = cells.value[cells.complete], cells.parts
    period = {"detected": None, "p": None, "configured": stride, "candidates": [], "spectrum": []}
    period |= {"autocorrelation": [], "comb_share": None, "comb_chance": None}
    gap = dict.fromkeys(("gap_null", "gap_p", "folded_gap", "folded_gap_low", "folded_gap_high"))
    gap |= dict.fromkeys(("excess", "excess_low", "excess_high"))
    constant = bool(len(values)) and parts.constant(tolerance)
    if not tested or not len(values):
        return {"period": period, "constant": constant, **gap}
    curve = values.mean(axis=0)
    period["detected"], period["p"], period["candidates"] = detect(
        parts, seed=seed, tolerance=tolerance
    )
    period["spectrum"] = spectrum.spectrum(curve)
    period["autocorrelation"] = spectrum.autocorrelation(curve)
    if stride and size >= 2 * stride:
        period["comb_share"] = spectrum.comb_share(curve, stride)
        period["comb_chance"] = spectrum.comb_chance(size, stride)
    gap["gap_null"], gap["gap_p"] = rotation_test(
        parts, stride or size, seed=seed, tolerance=tolerance
    )
    if stride:
        gap["folded_gap"] = float(np.ptp(mean_of(fold(values, stride))))
        gap["folded_gap_low"], gap["folded_gap_high"] = gap_interval(
            values, stride, resample(len(values), seed)
        )
        # The interval is of the true gap: the bias of a maximum minus a minimum is out of it, as it
        # is out of the observed gap less its null expectation.
        gap["excess"] = gap["folded_gap"] - gap["gap_null"]
        gap["excess_low"], gap["excess_high"] = gap["folded_gap_low"], gap["folded_gap_high"]
    return {"period": period, "constant": constant, **gap}


def _warnings(result: dict, strides: tuple[int, ...], stride: int | None) -> list[str]:
    """What a reader must know before trusting the numbers, one sentence each."""
    size, told = result["modulus"], []
    control, paired = result["control"], result["protocol"] == "pair"
    if result["n_samples"] == 1:
        told.append(
            "One prompt: the period is read within its own curve, and whether a phase is weak "
            "across prompts cannot be tested."
        )
    if not paired and strides and not stride and set(strides) != {1}:
        told.append(f"{size} residues are no multiple of the stride, so nothing is folded.")
    if stride and size < 2 * stride and not paired:
        told.append(
            f"{size} residues show stride {stride} only once: a period needs at least {2 * stride}."
        )
    if not paired and result["n_complete"] and not result["period"]["candidates"]:
        told.append(f"{size} residues have no divisor to test a period with.")
    if control:
        own = result["warnings"]
        told += [f"Control: {text}" for text in control["warnings"] if text not in own]
        if control["n_samples"] != result["n_samples"]:
            told.append(
                f"The control has {control['n_samples']} prompts, the run {result['n_samples']}: "
                "not yet the same copies."
            )
        if (
            result["protocol"] == "grid_origin"
            and control["n_complete"]
            and not control["constant"]
        ):
            told.append(
                "The control should be constant when only the grid's origin moves, and it is not."
            )
    return told


def _plain_numbers(item: Any) -> Any:
    """JSON's own types: numpy scalars become Python's, NaN and ±inf become None."""
    if isinstance(item, dict):
        return {key: _plain_numbers(value) for key, value in item.items()}
    if isinstance(item, list | tuple):
        return [_plain_numbers(value) for value in item]
    if isinstance(item, bool | np.bool_):
        return bool(item)
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, float | np.floating | np.ndarray):
        return float(item) if np.isfinite(item) else None
    return item
