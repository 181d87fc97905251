"""Saved views: a page's state under a short link, with a name, a note and tags; notes on runs.

A view's link is the hash of what was saved, so it opens exactly that for as long as the view lives;
what changes afterwards (name, note, tags, lock) is counted, and a writer who read an older count is
told.  Knows what may be saved and how it is asked for over HTTP.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Body, FastAPI, Header, HTTPException
from fastapi.responses import JSONResponse

from engine.closeup import find
from engine.owner import Engine
from engine.registry import FieldError, SpecError, shown
from engine.store.schema import utc_now
from engine.store.views import View
from engine.titles import title

PAGES = ("start", "explore", "benchmark", "eviction", "mechanism", "compare", "library")
KEY = re.compile(r"[0-9a-f]{8,64}")
HOLDS_KEYS = ("key", "run", "runs", "base")  # address parameters whose values name runs
LINK = 10  # hex digits of a view's id
NAME, NOTE, TAG, TAGS = 120, 5_000, 40, 20  # characters, characters, characters, number
PARAMETERS, VALUE, STATE = 100, 8_000, 16_000  # number, characters each, characters in all
RUNS = 50  # of one view: its runs are looked up whenever it is opened
# Of an address, not of a page's state; the last two no page could be opened with.
DROPPED = ("view", "token", "embed", "embed_options")
Body_ = Annotated[dict, Body()]
Who = Annotated[str, Header(alias="phasescope-author", max_length=600)]


# ---- what may be saved


def check_words(values: dict) -> dict[str, Any]:
    """name, note and tags as they are kept, of those that are given; SpecError at the first wrong.

    Any Unicode that a file can hold is taken; controls and line breaks in a name become spaces.
    """
    checks: dict[str, Callable] = {"name": _name, "note": _note, "tags": _tags}
    return {field: check(values[field]) for field, check in checks.items() if field in values}


def _name(value: object) -> str:
    name = _line("name", value, NAME)
    if not _visible(name):
        raise SpecError(FieldError("name", "is empty; give the view a name"))
    return name


def _note(value: object) -> str:
    text = _text("note", value, NOTE)
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc").strip()


def _tags(value: object) -> list[str]:
    if not isinstance(value, list):
        raise SpecError(FieldError("tags", "must be a list of words"))
    told = [_text("tags", tag, TAG) for tag in value]  # pages show tags between commas
    tags = [_line("tags", part, TAG) for tag in told for part in tag.split(",")]
    tags = list(dict.fromkeys(tag for tag in tags if _visible(tag)))
    if len(tags) > TAGS:
        raise SpecError(FieldError("tags", f"are {len(tags)}; at most {TAGS} are kept"))
    return tags


def _visible(text: str) -> bool:
    """Not of blanks, direction marks and characters without width alone."""
    return any(unicodedata.category(c) not in ("Cf", "Zs") for c in text)


def _line(field: str, value: object, most: int) -> str:
    text = _text(field, value, most)
    spaced = "".join(" " if unicodedata.category(c)[:2] in ("Cc", "Zl", "Zp") else c for c in text)
    return " ".join(spaced.split())


def _text(field: str, value: object, most: int) -> str:
    if not isinstance(value, str):
        raise SpecError(FieldError(field, "must be text"))
    if len(value) > most:
        raise SpecError(FieldError(field, f"has {len(value):,} characters; the most is {most:,}"))
    try:
        value.encode()
    except UnicodeEncodeError:
        told = "holds a broken character (half of a surrogate pair); paste the text again as UTF-8"
        raise SpecError(FieldError(field, told)) from None
    return value


def check_state(page: object, state: object) -> dict[str, str]:
    """A page's address parameters, all text; SpecError where they are none."""
    if page not in PAGES:
        known = ", ".join(PAGES)
        raise SpecError(FieldError("page", f"no page is {shown(page)}; known: {known}"))
    if not isinstance(state, dict) or len(state) > PARAMETERS:
        told = f"must be an object of at most {PARAMETERS} address parameters"
        raise SpecError(FieldError("state", told))
    for name, value in state.items():
        _text("state", name, 60)
        _text(f"state.{name[:60]}", value, VALUE)
    if sum(len(name) + len(value) for name, value in state.items()) > STATE:
        raise SpecError(FieldError("state", f"has more than {STATE:,} characters in all"))
    kept = {name: state[name] for name in sorted(state) if name.casefold() not in DROPPED}
    if (count := len(keys_in(kept))) > RUNS:
        raise SpecError(FieldError("state", f"names {count} runs; at most {RUNS} are shown"))
    return kept


def check(view: dict) -> None:
    """SpecError where a view from elsewhere could not be saved; one without a name gets one."""
    view["name"] = view["name"] or f"Imported view of {view['page']}"
    check_state(view["page"], view["state"])
    check_words({name: view[name] for name in ("name", "note", "tags")})


def keys_in(state: dict[str, str]) -> list[str]:
    """The runs that a state shows, in its order."""
    words = [part for name in HOLDS_KEYS for part in state.get(name, "").split(",")]
    found = [word.strip() for word in words]
    return list(dict.fromkeys(part for part in found if KEY.fullmatch(part)))


def link(
    page: str, state: dict[str, str], parent: str | None, name: str, digits: int = LINK
) -> str:
    """The view's id: ten hex digits of the hash of what is saved; of a fork also of its name."""
    content = [page, state, parent, name if parent else None]
    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


# ---- what is done with views


def save(engine: Engine, values: dict, author: str) -> dict:
    """{id, added, view}: the view of that state, made unless it is there."""
    state, page = check_state(values.get("page"), values.get("state")), values["page"]
    words = check_words({"name": "", "note": "", "tags": []} | values)
    parent = values.get("parent")
    if parent is not None:
        parent = known(engine, str(parent)).id
    keys, now, content = keys_in(state), utc_now(), (page, state, parent)
    with engine.store.alone():  # or a run goes between the look and the saving
        shown_runs = {key: engine.results.pick(key) for key in keys}
        made_with = {key: run.code_version for key, run in shown_runs.items() if run}
        view = View(
            id=_free(engine, content, words["name"]), page=page, state=state, keys=keys,
            made_with=made_with, parent=parent, author=author, **words, locked=False, version=1,
            created=now, changed=now, deleted=None,
        )  # fmt: skip
        added = engine.store.add_view(view)
    return {"id": view.id, "added": added, "view": engine.store.view(view.id).to_dict()}


def _free(engine: Engine, content: tuple, name: str) -> str:
    """The link of this content, longer where a short one stands for another content already."""
    for digits in (LINK, 2 * LINK, 64):
        id = link(*content, name, digits)
        have = engine.store.view(id)
        if have is None or (have.page, have.state, have.parent) == content:
            break
    return id


def known(engine: Engine, id: str) -> View:
    view = engine.store.view(id)
    if view is None:
        raise HTTPException(404, f"no view {id[:40]!r} here; the link may be cut short")
    if view.deleted:
        told = f"the view “{view.name}” was deleted; the library can bring it back"
        raise HTTPException(404, told)
    return view


def edit(engine: Engine, id: str, values: dict) -> dict:
    """Change words, lock, or delete and bring back.

    A locked view is only unlocked, a deleted one only brought back: by that word alone.
    """
    view = engine.store.view(id)
    if view is None:
        raise HTTPException(404, f"no view {id[:40]!r} here")
    changes = check_words(values)
    for field in ("locked", "deleted"):
        if field in values:
            if type(values[field]) is not bool:
                raise SpecError(FieldError(field, "must be true or false"))
            changes[field] = values[field]
    if unknown := set(values) - {"name", "note", "tags", "locked", "deleted", "version"}:
        raise SpecError(FieldError(min(unknown), "cannot be changed; save a new view instead"))
    if view.deleted and changes != {"deleted": False}:
        told = f"the view “{view.name}” was deleted; bring it back first, by deleted: false alone"
        raise SpecError(FieldError("deleted", told))
    if view.locked and not view.deleted and changes != {"locked": False}:
        told = (
            f"the view “{view.name}” is locked; unlock it first, by locked: false alone, or fork it"
        )
        raise SpecError(FieldError("locked", told))
    if "deleted" in changes:
        changes["deleted"] = utc_now() if changes["deleted"] else None
    return engine.store.change_view(id, _version(values), **changes).to_dict()


def opened(engine: Engine, id: str) -> dict:
    """A view with its runs as they are now; `changed`: of other code than when it was saved."""
    view = known(engine, id)
    runs, specs = [], engine.store.specs(view.keys)
    picked = engine.results.picks(view.keys, specs)
    for key in view.keys:
        run, then = picked.get(key), view.made_with.get(key)
        runs.append(
            {
                "key": key,
                "title": (run and run.title) or title(*specs.get(key, ({}, ""))),
                "status": run.status if run else "missing",
                "changed": bool(run and then and run.code_version != then),
            }
        )
    return view.to_dict() | {"runs": runs}


def _version(values: dict) -> int:
    if type(values.get("version")) is not int:
        told = "must be the whole number that the edited thing had when it was read"
        raise SpecError(FieldError("version", told))
    return values["version"]


def losses(engine: Engine, key: str) -> dict:
    """What deleting a run would take: {views, controls, rows, note, tags}."""
    run = find(engine, key)
    views = [{"id": v.id, "name": v.name} for v in engine.store.views_of(key)]
    kept = engine.store.leaning(key)
    rows = {"answers": run.answers_stored, "tokens": run.tokens_stored}
    words = engine.store.run_note(run.key)
    return {"key": key, "views": views, "control_of": kept, "rows": rows} | {
        "source": run.source,
        "note": words.note,
        "tags": list(words.tags),
    }


# ---- over HTTP


def add_to(app: FastAPI, engine: Engine) -> None:
    @app.get("/views")
    def views() -> JSONResponse:
        return JSONResponse([view.to_dict() for view in engine.store.views()])

    @app.post("/views")
    def add(values: Body_, author: Who = "") -> JSONResponse:
        return JSONResponse(save(engine, values, by(author)))

    @app.get("/views/{id}")
    def show(id: str) -> JSONResponse:
        return JSONResponse(opened(engine, id))

    @app.patch("/views/{id}")
    def change(id: str, values: Body_) -> JSONResponse:
        return JSONResponse(edit(engine, id, values))

    @app.get("/runs/{key}/note")
    def note(key: str) -> JSONResponse:
        return JSONResponse(engine.store.run_note(find(engine, key).key).to_dict())

    @app.patch("/runs/{key}/note")
    def write(key: str, values: Body_, author: Who = "") -> JSONResponse:
        run, have = find(engine, key), engine.store.run_note(key)
        words = {"note": have.note, "tags": list(have.tags)} | check_words(
            {name: values[name] for name in ("note", "tags") if name in values}
        )
        version = _version(values)
        return JSONResponse(
            engine.store.write_note(run.key, version, **words, author=by(author)).to_dict()
        )

    @app.get("/runs/{key}/losses")
    def what_is_lost(key: str) -> JSONResponse:
        return JSONResponse(losses(engine, key))


def by(author: str) -> str:
    """Who wrote, from a header that carries percent-encoded UTF-8."""
    return " ".join(unquote(author, errors="replace").split())[:NAME]
