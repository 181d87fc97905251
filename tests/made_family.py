"""A made-up controlled family for tests of the Benchmark page: flat controls, holes at the stride.

Shapes are those of trained members; no number here was measured.  No model, no store.
"""

from __future__ import annotations

import functools
import hashlib
import json

import numpy as np

MODULUS, SAMPLES, PLACES, COPIES = 24, 192, 96, 24 * 192


def _row(name, label, group, window, stride, records, control, shape, **changes) -> tuple:
    """`shape`: accuracy at its best, spread inside the window, depth of the hole, period found."""
    return name, label, group, window, stride, records, control, changes, shape


FAMILY = (
    _row("full-sparse", "Full, M = 24", "control", 0, 0, 24, "", (0.985, 0.0, 0.0, None)),
    _row("full-dense", "Full, M = 40", "control", 0, 0, 40, "", (0.953, 0.0, 0.0, None)),
    _row("full-8kv", "Full, 8 KV heads", "control", 0, 0, 32, "", (0.95, 0, 0, None), kv_heads=8),
    _row("full-2kv", "Full, 2 KV heads", "control", 0, 0, 32, "", (0.96, 0.0, 0.0, None)),
    _row("w8s8-sparse", "W8 S8, M = 24", "grid", 8, 8, 24, "full-sparse", (0.98, 0.25, 0.96, 8)),
    _row("w8s6", "W8 S6", "grid", 8, 6, 24, "full-sparse", (0.96, 0.38, 0.36, 6)),
    _row("w4s4", "W4 S4", "grid", 4, 4, 24, "full-sparse", (0.97, 0.05, 0.965, 4)),
    _row("w8s4", "W8 S4", "grid", 8, 4, 24, "full-sparse", (0.78, 0.06, 0.05, None)),
    _row("w6s6", "W6 S6", "grid", 6, 6, 24, "full-sparse", (0.86, 0.26, 0.69, 6)),
    _row("w12s4", "W12 S4", "grid", 12, 4, 24, "full-sparse", (0.85, 0.2, 0.3, 4)),
    _row("w8s8-dense", "W8 S8, M = 40", "grid", 8, 8, 40, "full-dense", (0.97, 0.66, 0.955, 8)),
    _row("w12s12", "W12 S12", "grid", 12, 12, 32, "full-8kv", (0.99, 0.36, 0.93, 12), kv_heads=8),
    _row("w8s8-2kv", "W8 S8, 2 KV heads", "heads", 8, 8, 32, "full-2kv", (0.9, 0.47, 0.88, 8)),
    _row(
        "w8s8-8kv",
        "W8 S8, 8 KV heads",
        "heads",
        8,
        8,
        32,
        "full-8kv",
        (0.97, 0.02, 0.66, 8),
        kv_heads=8,
    ),
    _row(
        "w8s8-uniform",
        "W8 S8, uniform",
        "gate",
        8,
        8,
        24,
        "full-sparse",
        (0.36, 0.19, 0.33, 8),
        gate="uniform",
    ),
    _row(
        "w8s8-vector",
        "W8 S8, vector gate",
        "gate",
        8,
        8,
        24,
        "full-sparse",
        (0.72, 0.35, 0.63, 8),
        gate="vector",
    ),
    _row(
        "w8s8-norope",
        "W8 S8, no RoPE",
        "rope",
        8,
        8,
        24,
        "full-sparse",
        (0.9, 0.29, 0.88, 8),
        rope=False,
    ),
    _row(
        "w8s8-shared",
        "W8 S8, shared payload",
        "payload",
        8,
        8,
        24,
        "full-sparse",
        (0.8, 0.4, 0.78, 8),
        payload="shared",
    ),
    _row(
        "w8s8-staggered",
        "W8 S8, staggered",
        "repair",
        8,
        8,
        40,
        "full-dense",
        (0.95, 0.3, 0.38, 8),
        stagger=4,
    ),
    _row(
        "w8s8-spread",
        "W8 S8, KL",
        "repair",
        8,
        8,
        40,
        "full-dense",
        (0.97, 0.3, 0.955, 8),
        coverage=0.3,
    ),
    _row(
        "w13s12", "W13 S12", "repair", 13, 12, 32, "full-8kv", (0.98, 0.03, 0.04, None), kv_heads=8
    ),
    _row(
        "coverage-phase-zero",
        "Phase 0 only",
        "coverage",
        8,
        4,
        11,
        "full-sparse",
        (1.0, 0.98, 0.99, 4),
        phases="zero",
        steps=600,
    ),
    _row(
        "coverage-all-phases",
        "All phases",
        "coverage",
        8,
        4,
        11,
        "full-sparse",
        (0.995, 0.0, 0.01, None),
        phases="all",
        steps=600,
    ),
    _row(
        "coverage-under-trained",
        "40 steps",
        "coverage",
        8,
        4,
        11,
        "full-sparse",
        (0.03, 0.0, 0.015, None),
        phases="all",
        steps=40,
    ),
)
SEEDED = ("w8s8-dense", "w8s8-staggered", "w8s8-spread", "w12s12", "w13s12")


@functools.cache
def members() -> tuple[dict, ...]:
    """All members with their numbers, as if every one was run."""
    out = []
    for row in FAMILY:
        for seed in range(3 if row[0] in SEEDED else 1):
            out.append(_member(*row, seed=seed))
    known = {m["name"]: m for m in out}
    for member in out:
        control = known.get(member["control"])
        member["control_residues"] = control["numbers"]["residues"] if control else None
    return tuple(out)


def _member(name, label, group, window, stride, records, control, changes, shape, *, seed) -> dict:
    full = not window
    own = {
        "name": f"{name}-seed{seed}" if seed else name,
        "label": f"{label}, seed {seed}" if seed else label,
        "group": group,
        "base": name,
        "seed": seed,
        "control": control,
        "memory": "full" if full else "chunked",
        "window": window or None,
        "stride": stride or None,
        "gate": None if full else "scalar",
        "payload": None if full else "own",
        "rope": True,
        "kv_heads": 2,
        "local": 1,
        "stagger": 0,
        "beside": False,
        "coverage": 0.0,
        "records": records,
        "places": PLACES,
        "density": None if full else records * window / PLACES,
        "phases": "random",
        "steps": 2500,
        "training_accuracy": shape[0],
        "parameters": 124_544,
        "status": "done",
        "stale": False,
        "reason": None,
        "progress": {"done": COPIES, "total": COPIES, "seconds_left": 0},
        **changes,
    }
    own["preset"] = f"controlled-{own['name']}"
    steps = [0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0]
    own["curve"] = [
        [int(own["steps"] * s), 4.2 * (1 - s) + 0.2, max(0.016, shape[0] * s**0.5)] for s in steps
    ]
    own["spec"] = spec(own)
    own["key"] = key(own["spec"])
    own["numbers"] = report(stride or None, window or None, shape, seed + len(name))
    return own


def spec(member: dict) -> dict:
    task = {"kind": "pairs", "records": member["records"], "places": PLACES, "symbols": 64}
    memory = {"kind": "full"} if member["memory"] == "full" else {"kind": "trained"}
    out = {
        "model": {"id": member["name"]},
        "memory": memory,
        "task": task | {"first": 16, "pitch": 0, "rivals": 3},
        "protocol": "in_sequence",
        "modulus": MODULUS,
        "samples": SAMPLES,
        "measure": "accuracy",
        "batch": 24,
        "rows": "scored",
    }
    if member["control"]:
        out["control"] = {"model": {"id": member["control"]}, "memory": {"kind": "full"}}
    return out


def key(values: dict) -> str:
    text = json.dumps(values, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def curve(stride: int | None, shape: tuple, seed: int) -> np.ndarray:
    """Accuracy at each residue: uneven inside the window, a hole at the last phase."""
    top, inner, hole, _ = shape
    values = np.full(MODULUS, float(top))
    if stride:
        rng = np.random.default_rng(seed)
        uneven = rng.permutation(np.linspace(0, inner, stride - 1)) if stride > 1 else [0]
        phase = np.arange(MODULUS) % stride
        values = top - np.append(uneven, hole)[phase]
    ripple = np.sin(1.7 * np.arange(MODULUS) + seed) * 0.006
    return np.clip(values + ripple, 0.0, 1.0)


def report(stride: int | None, window: int | None, shape: tuple, seed: int) -> dict:
    """The fields of a run's numbers that the page reads."""
    values = curve(stride, shape, seed)
    half = 1.96 * np.sqrt(np.maximum(values * (1 - values), 0.003) / SAMPLES)
    rows = [
        {
            "residue": r,
            "n": SAMPLES,
            "accuracy": float(v),
            "low": float(max(0, v - h)),
            "high": float(min(1, v + h)),
            "gold_prob": float(0.93 * v),
            "gold_prob_low": float(max(0, 0.93 * v - h)),
            "gold_prob_high": float(min(1, 0.93 * v + h)),
            "value": float(v),
            "value_low": float(max(0, v - h)),
            "value_high": float(min(1, v + h)),
        }
        for r, (v, h) in enumerate(zip(values, half, strict=True))
    ]
    folds = values.reshape(-1, stride).mean(axis=0) if stride else np.array([])
    folded = [
        {"phase": p, "value": float(v), "low": max(0, v - 0.02), "high": min(1, v + 0.02), "n": 576}
        for p, v in enumerate(folds)
    ]
    split = bool(stride) and stride == window
    worst, mean = int(values.argmin()), float(values.mean())
    found = shape[3]
    weak = found is not None
    gap = float(folds.max() - folds.min()) if stride else None
    finding = f"Period {found} found, the configured stride" if weak else "No phase effect resolved"
    return {
        "residues": rows,
        "folded": folded,
        "mean": mean,
        "mean_low": mean - 0.015,
        "mean_high": mean + 0.015,
        "worst": float(values[worst]),
        "worst_low": rows[worst]["low"],
        "worst_high": rows[worst]["high"],
        "worst_residue": worst,
        "worst_phase": int(folds.argmin()) if stride else None,
        "gap": float(np.ptp(values)),
        "folded_gap": gap,
        "gap_null": 0.03,
        "gap_p": 0.0004 if weak else 0.31,
        "excess": None if gap is None else gap - 0.03,
        "excess_low": None if gap is None else gap - 0.06,
        "excess_high": None if gap is None else gap + 0.01,
        "sigma": float(values.std()),
        "within_gap": float(np.ptp(folds[:-1])) if split else None,
        "boundary": float(folds[-1]) if split else None,
        "chance": 1 / 64,
        "measure": "accuracy",
        "period": {"detected": found, "p": 0.0005 if weak else 0.42, "configured": stride},
        "finding": finding,
        "doubt": "The full cache is flat.",
        "n_samples": SAMPLES,
        "modulus": MODULUS,
        "warnings": [],
        "protocol": "in_sequence",
    }


def depth() -> dict:
    rng = np.random.default_rng(1)
    accuracy = np.clip(0.8 - 0.6 * (np.arange(24) % 8 == 7) + rng.normal(0, 0.05, 24), 0, 1)
    near, dense = rng.uniform(140, 230, 24), rng.integers(1, 4, 24) + rng.normal(0, 0.05, 24)

    def points(x) -> list[dict]:
        return [
            {"x": float(a), "accuracy": float(b), "n": 192}
            for a, b in zip(x, accuracy, strict=True)
        ]

    return {
        "distance": {"points": points(near), "rho": -0.03, "p": 0.88},
        "pairs": {"points": points(dense), "rho": 0.25, "p": 0.23},
    }


COMBINED = [
    {"rule": rule, "forwards": forwards, "n_samples": 192, "mean": mean, "worst": worst}
    | {"mean_low": mean - 0.02, "mean_high": mean + 0.02, "gap": mean - worst, "answered": 1.0}
    | {"worst_low": worst - 0.05, "worst_high": worst + 0.05, "worst_case": 0.11}
    | {"worst_case_low": 0.07, "worst_case_high": 0.16, "chance": 0.25}
    for rule, forwards, mean, worst in (
        ("one run", 1, 0.738, 0.208),
        ("mean log-probability", 2, 0.854, 0.542),
        ("agreement", 2, 0.596, 0.203),
        ("random jitter once", 1, 0.738, 0.738),
    )
]
