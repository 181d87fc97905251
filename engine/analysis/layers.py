"""The layer sensitivity scan: what compressing one layer at a time costs (SCIENCE §1 rule 10).

Knows answers with `layer` ≥ 0 and those of the full cache; knows nothing about models.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from engine.analysis.intervals import percentile, resample, resampled_means

OUTLIER = 3.0  # scaled median deviations above the median cost
LEAST = 0.02  # a smaller cost, as probability, is never worth an exact layer


def layer_scan(
    answers: pd.DataFrame, control: pd.DataFrame | None = None, *, seed: int = 0
) -> dict:
    """{layers: [{layer, gold_prob, low, high}], control: {gold_prob}, keep, suggestion}.

    gold_prob is the joint probability of the answer with that one layer compressed, the mean over
    copies, its interval resampled by sample.  `keep` names at most a quarter of the layers: those
    whose cost stands out of the others' (median + 3 scaled median deviations) and is at least .02.
    """
    scan = answers[answers["layer"] >= 0] if "layer" in answers else answers.iloc[:0]
    full = None if control is None or control.empty else _mean(control)
    if scan.empty:
        return {"layers": [], "control": {"gold_prob": full}, "keep": [], "suggestion": "all"}
    prob = scan.assign(prob=np.exp(scan["logprob"].to_numpy(float)))
    table = prob.pivot_table(index="sample", columns="layer", values="prob", aggfunc="mean")
    values = table.to_numpy(float)
    n = len(values)
    means = np.nanmean(values, axis=0)
    low, high = percentile(resampled_means(values, resample(n, seed)), n)
    names = [int(layer) for layer in table.columns]
    keep = _costly(names, means)
    listed = ", ".join(map(str, keep))
    return {
        "layers": [
            {"layer": name, "gold_prob": float(m), "low": _known(a), "high": _known(b)}
            for name, m, a, b in zip(names, means, low, high, strict=True)
        ],
        "control": {"gold_prob": full},
        "keep": keep,
        "suggestion": f"all but {listed}" if keep else "all",
    }


def _costly(names: list[int], means: np.ndarray) -> list[int]:
    """Layers far below the median layer, the costliest first in line for the places, sorted."""
    cost = np.median(means) - means
    spread = 1.4826 * np.median(np.abs(cost))
    far = [i for i in np.argsort(-cost, kind="stable") if cost[i] >= max(OUTLIER * spread, LEAST)]
    return sorted(names[i] for i in far[: max(1, len(names) // 4)])


def _mean(answers: pd.DataFrame) -> float:
    """Mean over samples of each sample's mean joint probability."""
    prob = np.exp(answers["logprob"].to_numpy(float))
    return float(pd.Series(prob).groupby(answers["sample"].to_numpy()).mean().mean())


def _known(number: float) -> float | None:
    return float(number) if np.isfinite(number) else None
