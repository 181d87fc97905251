"""What the page is about: a decode spec, what would run, and what is known of its run."""

from __future__ import annotations

from dataclasses import dataclass

from app import services, services_eviction, state
from app.eviction import recipe


@dataclass(frozen=True)
class Subject:
    """One decode run, planned or measured.  `run` is None until it was submitted."""

    key: str
    spec: dict
    plan: dict | None
    run: dict | None
    errors: tuple[tuple[str, str], ...]
    schema: dict

    @property
    def status(self) -> str:
        return (self.run or {}).get("status") or "new"

    @property
    def active(self) -> bool:
        return self.status in services.ACTIVE

    @property
    def report(self) -> dict | None:
        """The run's numbers, where it has any."""
        return self.run if self.run and self.run.get("methods") and not self.active else None

    @property
    def arms(self) -> list[dict]:
        """Methods at their budgets, the full cache left out.  label: in the form's words; named:
        as the service and addresses name them.
        """
        rows = (self.report or {}).get("methods") or ()
        return [
            row | {"label": recipe.words(row["label"], self.schema), "named": row["label"]}
            for row in rows
            if row["method"] != recipe.FULL
        ]

    @property
    def full(self) -> dict | None:
        rows = (self.report or {}).get("methods") or ()
        return next((row for row in rows if row["method"] == recipe.FULL), None)

    @property
    def labels(self) -> list[str]:
        """Names of the methods, each once, in the order of the spec: a place is a colour."""
        return list(dict.fromkeys(row["label"] for row in self.arms))

    @property
    def names(self) -> dict[int, str]:
        """Arm → its method's name."""
        return {int(row["arm"]): row["label"] for row in self.arms}

    @property
    def model(self) -> dict:
        """n_layers, layers (those that evict), q_heads, kv_heads; empty without a plan."""
        return (self.plan or {}).get("model") or {}

    @property
    def layers(self) -> list[int]:
        known = self.model.get("layers")
        return list(known if known is not None else range(self.model.get("n_layers") or 1))

    @property
    def title(self) -> str:
        if self.run and self.run.get("title"):
            return self.run["title"]
        told = {"lookback": "Looking back", "reasoning": "Reasoning"}
        kind = self.spec["task"]["kind"]
        return told.get(kind, kind)


class Missing(Exception):
    """The address names nothing that the service knows, or a run that is no decode run."""

    def __init__(self, key: str, other: bool = False):
        super().__init__(key)
        self.other = other


def settle(schema: dict) -> Subject:
    """Read address and form, agree with the service, and return what the page is about.

    A valid draft becomes the address's key; an invalid one keeps the last valid key and tells its
    errors at the fields.  Raises Missing.
    """
    form = state.decode
    key = form.key()
    if key is None:
        key = _first(schema)
    if key and form.loaded() != key:
        form.load(key, _find(schema, key))
    elif not key and form.loaded() is None:
        form.load("", recipe.fresh(schema))
    base = recipe.plain(form.base())
    draft = recipe.read(schema, base) if form.drawn() else base
    answer = services.preview(draft)
    if answer.plan and (draft != base or not key):
        key, spec = answer.plan["key"], answer.plan["spec"]
        for widget in recipe.corrected(schema, draft, spec):
            state.drop(widget)
        form.remember(key, spec)
        base = recipe.plain(spec)
    if key:
        form.point_at(key)
    plan = answer.plan
    if not plan and draft != base:  # the page goes on showing the last valid state
        plan = services.preview(base).plan
    run = services.run(key) if key else None
    return Subject(key or "", base, plan, run, answer.errors, schema)


def _first(schema: dict) -> str | None:
    """A key to begin with: a preset of the decode lane, or the newest decode run."""
    preset = next((p["key"] for p in schema["presets"]), None)
    return preset or services_eviction.latest()


def _find(schema: dict, key: str) -> dict:
    if not state.well_formed(key):
        raise Missing(key)
    preset = next((p["spec"] for p in schema["presets"] if p["key"] == key), None)
    spec = services.spec(key) or (services.run(key) or {}).get("spec") or preset
    if spec is None:
        raise Missing(key)
    if not services_eviction.is_decode(spec):
        raise Missing(key, other=True)
    return spec
