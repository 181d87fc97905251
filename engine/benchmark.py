"""The controlled family as a page sees it: each member, its numbers, and published figures beside.

Numbers come from stored runs alone; nothing is computed here but kept reports.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import re
from typing import Any

from engine import paths
from engine.costs import cost
from engine.models.controlled import shelf
from engine.models.controlled.checkpoint import Header
from engine.models.controlled.config import Config
from engine.models.controlled.family import Member, family
from engine.presets import family_presets
from engine.registry import SpecError
from engine.results import Results, check_spec

NUMBERS = (
    *("residues", "folded", "mean", "mean_low", "mean_high", "worst", "worst_low", "worst_high"),
    *("worst_residue", "worst_phase", "best_phase", "gap", "folded_gap", "gap_null", "gap_p"),
    *("excess", "excess_low", "excess_high", "sigma", "within_gap", "boundary", "chance"),
    *("measure", "finding", "doubt", "n_samples", "modulus", "warnings", "protocol", "period"),
)


def benchmark(results: Results) -> dict:
    """{members, published} for the page."""
    here = shelf.listed()
    members = [_member(results, m, here.get(m.name)) for m in family().values()]
    return {"members": members, "published": published()}


@functools.cache
def family_keys() -> frozenset[str]:
    """Keys of the family's benchmarks, of the models that are here."""
    found = set()
    for preset in family_presets().values():
        with contextlib.suppress(SpecError):
            found.add(check_spec(preset.spec).key)
    return frozenset(found)


def _member(results: Results, member: Member, found: Header | None) -> dict:
    preset = family_presets()[member.name]
    entry = about(member, found) | {"preset": preset.name, "spec": preset.spec}
    entry |= {"key": None, "status": "missing", "stale": False}
    entry |= {"numbers": None, "control_residues": None, "cost": None}
    if found is None:
        return entry
    try:
        spec = check_spec(preset.spec)
    except SpecError:
        return entry
    entry |= {"key": spec.key, "spec": spec.to_dict(), "status": "none"}
    run = results.pick(spec.key)
    if run is None:
        return entry
    entry |= {"status": run.status, "stale": results.stale(run)}
    numbers = results.report(run)
    if numbers["residues"]:
        entry["numbers"] = {name: numbers[name] for name in NUMBERS if name in numbers}
        entry["numbers"]["period"] = {
            name: numbers["period"][name] for name in ("detected", "p", "configured")
        }
        if numbers["control"]:
            entry["control_residues"] = numbers["control"]["residues"]
        entry["cost"] = cost(spec, run)
    return entry


def about(member: Member, found: Header | None) -> dict[str, Any]:
    """What the member is; of a model that is not here, what it would be."""
    config = found.config if found else member.config
    recipe = found.recipe if found else member.recipe
    notes = found.notes if found else {}
    chunked = config.chunked
    records = recipe.records
    return {
        "name": member.name,
        "label": member.label,
        "group": member.group,
        "base": re.sub(r"-seed[0-9]+$", "", member.name),
        "seed": recipe.seed,
        "control": member.control,
        "memory": config.memory,
        "window": config.window if chunked else None,
        "stride": config.stride if chunked else None,
        "gate": config.gate if chunked else None,
        "payload": config.payload if chunked else None,
        "rope": config.rope,
        "kv_heads": config.kv_heads,
        "parameters": parameters(config),
        "local": config.local,
        "stagger": config.stagger,
        "beside": config.beside,
        "coverage": recipe.coverage,
        "records": records,
        "places": recipe.places,
        "density": round(records * config.window / recipe.places, 2) if chunked else None,
        "phases": recipe.phases,
        "steps": recipe.steps,
        "training_accuracy": notes.get("accuracy"),
        "gate_accuracy": member.gate,
        "curve": notes.get("curve", []),
        "here": found is not None,
    }


@functools.cache
def parameters(config: Config) -> int:
    """Trained numbers of a model of that config; its weights are not loaded."""
    import torch

    from engine.models.controlled.model import Controlled

    with torch.device("meta"):
        return Controlled(config).num_parameters()


def published() -> list[dict]:
    """PWS's figures of native models, as fractions: beside ours, never among them."""
    path = paths.data() / "published" / "pws_models.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return [
            {
                "model": row["model"],
                "mean": float(row["mean_accuracy_pct"]) / 100,
                "gap": float(row["residue_gap_pp"]) / 100,
                "period": int(row["observed_period"]),
                "samples": int(row["samples_per_residue"]),
                "tokens": int(row["total_tokens"]),
                "source": row["source"],
            }
            for row in csv.DictReader(file)
        ]
