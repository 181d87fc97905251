"""What there is to choose from: models, memories, tasks and presets, for forms and lists."""

from __future__ import annotations

from engine.models import catalog
from engine.models.controlled import shelf
from engine.models.controlled.family import family
from engine.registry import MEMORIES, TASKS
from engine.results import Results
from engine.specs import settings_schema


def make_schema(results: Results) -> dict:
    """What there is to choose from, for the form: nothing of it is written twice."""
    from engine.eviction.spec import decode_schema

    tasks = TASKS.schema()
    for name, about in tasks.items():
        about["protocols"] = list(TASKS[name]().protocols())
    models = [
        {"name": e.name, "label": e.label, "help": e.help, "installed": catalog.installed(e.name)}
        for e in catalog.CATALOG.values()
    ]
    return {
        "models": models + controlled_models(),
        "memories": memories(),
        "tasks": tasks,
        "presets": results.gallery(),
        "decode": decode_schema(),
        **settings_schema(),
    }


def memories() -> dict[str, dict]:
    """The kinds of memory with their options; `evicts`: those that drop entries while decoding."""
    found = MEMORIES.schema()
    for name, about in found.items():
        about["evicts"] = getattr(MEMORIES[name], "evicts", False)
    return found


def controlled_models() -> list[dict]:
    """The controlled models that are here, with what a form fills in for each."""
    found = []
    for name, header in shelf.listed().items():
        config, recipe = header.config, header.recipe
        member = family().get(name)
        words = f"controlled, {recipe.records} records in {recipe.places} places"
        found.append(
            {
                "name": name,
                "label": f"{member.label if member else name} (controlled)",
                "help": words,
                "installed": True,
                "controlled": True,
                "memory": "trained" if config.chunked else "full",
                "records": recipe.records,
                "places": recipe.places,
                "pitch": 0 if recipe.phases == "random" else recipe.pitch,
                "window": config.window if config.chunked else None,
                "stride": config.stride if config.chunked else None,
                "control": shelf.control_of(name),
            }
        )
    return found
