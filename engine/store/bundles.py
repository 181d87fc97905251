"""One file that carries runs to another machine: a zip of Parquet, run.json and a sha256 manifest.

Format 1 holds one run and its control; format 2 up to fifty runs, their controls, attention maps
and a saved view.  A bundle comes in whole or not at all.  Knows the two forms; knows nothing of
HTTP or of how a run is computed.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from engine.kinds import kind_of, read_spec
from engine.registry import FieldError, SpecError
from engine.store.bundle_files import (
    ABOUT,
    MANIFEST,
    MAX_UNPACKED,
    VIEW,
    check_size,
    parquet,
    refuse,
    unpack,
)
from engine.store.bundle_files import read_json as _read_json
from engine.store.bundle_maps import MOST, PLACE, maps_of, packed, read_map
from engine.store.bundle_parts import (
    CARRIED,
    SCHEMAS,
    Part,
    describe,
    insert,
    read_part,
    tables,
    unsound,
    whole,
)
from engine.store.bundle_view import pack_view, read_view
from engine.store.ledger import Run
from engine.store.schema import utc_now
from engine.store.store import Store
from engine.version import product_version

__all__ = ["SCHEMAS", "Bundle", "Part", "export_bundle", "export_run", "import_bundle",
           "import_run", "read", "read_bundle", "unsound"]  # fmt: skip
PARTS = ("run", "control")  # of format 1
MOST_RUNS = 50
SMALL = 19  # Zstandard's level for shipped results; others are packed quickly
NAME = 200  # characters of a file's name that are kept


class Bundle(NamedTuple):
    """runs: for each, the places in `parts` of itself and of its control, None without."""

    parts: list[Part]
    runs: list[tuple[int, int | None]]
    view: dict | None
    made_by: str  # Phasescope's version; "" where it is not told


# ---- out


def export_run(store: Store, run: Run, alone: bool = False) -> bytes:
    """The run and its control in format 1; `alone` leaves the control out, as shipped ones do."""
    parts = {"run": run}
    if run.control_run is not None and not alone:
        parts["control"] = store.run(run.control_run)
    about = {name: describe(store, part) for name, part in parts.items()}
    files = _tables(store, parts, SMALL) | {ABOUT: json.dumps(about, indent=1).encode()}
    return _zip(files, 1)


def export_bundle(
    store: Store, runs: list[Run], maps: bool = True, view: dict | None = None
) -> bytes:
    """Up to fifty runs with their controls in format 2, with their attention maps and a view."""
    if not 1 <= len({run.key for run in runs}) == len(runs) <= MOST_RUNS:
        told = f"must hold 1 to {MOST_RUNS} runs, each once, not {len(runs)}"
        raise SpecError(FieldError("bundle", told))
    controls = [run.control_run for run in runs]
    asked = {run.id: run for run in runs}
    others = {id: store.run(id) for id in controls if id is not None and id not in asked}
    every = [*runs, *others.values()]
    place = {run.id: at for at, run in enumerate(every)}
    about = {
        "made_by": product_version(),
        "parts": [describe(store, run) for run in every],
        "runs": [[place[run.id], place.get(run.control_run)] for run in runs],
        "maps": [],
    }
    files = _tables(store, {f"part{place[run.id]}": run for run in every})
    for run in every if maps else ():
        for found in maps_of(store, run.id):
            name = f"map{len(about['maps'])}"
            where = {"part": place[run.id], **dict(zip(PLACE, found.place, strict=True))}
            about["maps"].append(where)
            files[f"{name}.npy"] = packed(found.weights)
            files[f"{name}.json"] = json.dumps(found.labels).encode()
    if len(about["maps"]) > MOST:
        told = f"would hold {len(about['maps'])} attention maps; the most is {MOST}"
        raise SpecError(FieldError("bundle", told))
    if view is not None:
        files[VIEW] = pack_view(view)
    files[ABOUT] = json.dumps(about, indent=1).encode()
    return _zip(files, 2)


def _tables(store: Store, parts: dict[str, Run], level: int = 3) -> dict[str, bytes]:
    """Member → Parquet of every table of the parts, packed beside each other."""
    with ThreadPoolExecutor(2) as pool:
        waiting = {
            f"{name}_{table}.parquet": pool.submit(parquet, rows, level)
            for name, run in parts.items()
            for table, rows in tables(store, run).items()
        }
        return {member: packing.result() for member, packing in waiting.items()}


def _zip(files: dict[str, bytes], form: int) -> bytes:
    if (size := sum(map(len, files.values()))) > MAX_UNPACKED:
        told = f"would hold {size / 1e9:.1f} GB, more than can be imported; export fewer runs"
        raise SpecError(FieldError("bundle", told))
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files[MANIFEST] = json.dumps({"format": form, "sha256": hashes}, indent=1).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            # A fixed date: the same runs export to the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)
    return out.getvalue()


# ---- in


def import_run(store: Store, bundle: bytes, source: str = "import", file: str = "") -> dict:
    """{key, added} of a bundle's first run; see `import_bundle`."""
    return import_bundle(store, bundle, source, file)["runs"][0]


def import_bundle(
    store: Store,
    bundle: bytes,
    source: str = "import",
    file: str = "",
    check_view: Callable[[dict], Any] = lambda view: None,
) -> dict:
    """Check a bundle, then add its runs in one transaction: {runs: [{key, added}], view}.

    Adds no run of which as much is stored already under its code version; raises SpecError naming
    the file that is wrong.  `file`: the name under which it came; `check_view` may refuse a view by
    its meaning.
    """
    shipped = source == "preset"
    found = read_bundle(bundle, shipped, lambda part: _control_here(store, part) is not None)
    if found.view is not None:
        try:
            check_view(found.view)
        except SpecError as error:
            told = "; ".join(f"{e.field} {e.message}" for e in error.errors)
            raise refuse(f"{VIEW}: {told}") from None
    origin = None if shipped else _origin(bundle, file, found.made_by)
    saved, removed, ids = [], [], {}
    try:
        with store.writing() as cursor:  # one at a time: twice the same adds nothing
            wanted = [p for p in found.runs if not _here(store, found.parts[p[0]], source)]
            for own, _ in wanted:
                removed += _clear(store, cursor, found.parts[own].about, source)
            # A control travels with its runs: another machine's may differ in bits.
            for at in sorted({at for pair in wanted for at in pair} - {None}):
                part = found.parts[at]
                ids[at] = _add(store, cursor, part, source, origin)
                for carried in part.maps:
                    saved.append(store.maps.save(carried.weights, carried.labels))
                    values = [ids[at], *carried.place, saved[-1]]
                    cursor.execute("insert into maps values (?, ?, ?, ?, ?, ?)", values)
            for own, control in wanted:
                values = {"control_run": ids.get(control), "asked": True}
                if control is None and not shipped:
                    values["control_run"] = _control_here(store, found.parts[own])
                store._change(cursor, ids[own], values)
    except BaseException:
        for name in saved:
            store.maps.remove(name)
        raise
    for name in removed:
        store.maps.remove(name)
        store.traces.remove(name)
    for id in ids.values():
        if not store.verify(id):
            store.change(id, status="incomplete", reason="the bundle held fewer rows than expected")
    for part in found.parts:
        store.remember(part.spec)
    added = {found.parts[own].about["key"] for own, _ in wanted}
    keys = [found.parts[own].about["key"] for own, _ in found.runs]
    return {"runs": [{"key": key, "added": key in added} for key in keys], "view": found.view}


def _origin(bundle: bytes, file: str, made_by: str) -> dict:
    """Where imported runs came from."""
    return {
        "bundle": hashlib.sha256(bundle).hexdigest(),
        "file": file.encode(errors="replace").decode()[-NAME:] or None,
        "imported": utc_now().isoformat(timespec="seconds") + "Z",
        "made_by": made_by or None,
    }


def _here(store: Store, part: Part, source: str) -> bool:
    """Whether the run is stored under this code version: whole, or as much as the part has."""
    about = part.about
    for have in store.runs_of(about["key"]):
        # A shipped result and the user's own stand side by side: only like hides like.
        like = (have.source == "preset") == (source == "preset")
        # Another bundle's control may have the same key; it is not this run and has no text.
        if not (like and have.asked and have.code_version == about["code_version"]):
            continue
        if have.status == "done":
            return True
        if have.source == source and about["status"] != "done":
            return _rows(tables(store, have)) >= _rows(part.tables)
    return False


def _rows(held: dict) -> int:
    return sum(table.num_rows for table in held.values())


def _control_here(store: Store, part: Part) -> int | None:
    """The stored control of a run that came without: of the same code, and no import, if it can."""
    runs = store.runs_of(part.spec.control.key) if part.spec.control else ()
    code = part.about["code_version"]
    whole = [
        (r.code_version == code, r.source != "import", r.id) for r in runs if r.status == "done"
    ]
    return max(whole)[-1] if whole else None


def _clear(store: Store, cursor, about: dict, source: str) -> list[str]:
    """Make room: an incomplete earlier import, and a preset's results of older code.

    Returns the names of side files that no row points to any more.
    """
    files = []
    for have in store.runs_of(about["key"]):
        same = have.code_version == about["code_version"]
        if have.asked and have.source == source and (same or source == "preset"):
            if store._leaning_on(cursor, [have.id]):  # another run's control: its rows stay
                store._change(cursor, have.id, {"asked": False})
                continue
            files += store._drop(cursor, have.id)
            control = have.control_run
            if control is not None and not store._needed(cursor, control):
                files += store._drop(cursor, control)
    return files


def _add(store: Store, cursor, part: Part, source: str, origin: dict | None) -> int:
    about = part.about
    words = (about["code_version"], source, about["title"])
    run = store._new_run(cursor, about["key"], *words, False, kind_of(part.spec))
    insert(store, cursor, run, part)
    told = {field: about[field] for field in CARRIED} | {"reason": "", "origin": origin}
    told["answers_expected"] = max(about["answers_expected"], whole(part))
    store._change(cursor, run, told)
    return run


# ---- every check that needs no store


def read(bundle: bytes, shipped: bool = False) -> dict[str, Part]:
    """The first run of a bundle and its control, by these names."""
    found = read_bundle(bundle, shipped)
    places = dict(zip(PARTS, found.runs[0], strict=True))
    return {name: found.parts[at] for name, at in places.items() if at is not None}


def read_bundle(
    bundle: bytes, shipped: bool = False, lent: Callable[[Part], bool] = lambda part: False
) -> Bundle:
    """A bundle's content, all of it checked; a shipped result may lack its control, and so may a
    run whose control is stored (`lent`).
    """
    form, files = unpack(bundle)
    about = _read_json(files[ABOUT], ABOUT)
    reader: Callable = _one if form == 1 else _many
    found, used = reader(about, files, (lambda part: True) if shipped else lent)
    for name in sorted(set(files) - used - {ABOUT}):
        raise refuse(f"holds {name!r}, which belongs to no run in it")
    tables = [table for part in found.parts for table in part.tables.values()]
    check_size(sum(table.nbytes for table in tables))
    return found


def _one(about: object, files: dict[str, bytes], lent: Callable) -> tuple[Bundle, set[str]]:
    """Format 1; and the members that were read."""
    if not isinstance(about, dict) or "run" not in about or not set(about) <= set(PARTS):
        raise refuse("run.json must describe a run and at most its control")
    names = [name for name in PARTS if name in about]
    told = [f"the {name}" for name in names]
    parts = [
        read_part(name, words, about[name], files, name == "run")
        for name, words in zip(names, told, strict=True)
    ]
    control = parts[1] if len(parts) > 1 else None
    if control is not None or not lent(parts[0]):
        _check_control(parts[0], control)
    runs = [(0, 1 if control else None)]
    return Bundle(parts, runs, None, ""), _used(names, parts)


def _many(about: object, files: dict[str, bytes], lent: Callable) -> tuple[Bundle, set[str]]:
    """Format 2; and the members that were read."""
    fields = {"made_by": str, "parts": list, "runs": list, "maps": list}
    if not isinstance(about, dict) or set(about) != set(fields):
        raise refuse(f"run.json must have {', '.join(fields)}")
    for name, kind in fields.items():
        if not isinstance(about[name], kind):
            raise refuse(f"run.json: {name} is of the wrong type")
    runs = _pairs(about["runs"], len(about["parts"]))
    if len(about["made_by"]) > 40 or len(about["maps"]) > MOST:
        raise refuse(f"run.json: made_by is too long, or maps are more than {MOST}")
    names, leads = [f"part{at}" for at in range(len(about["parts"]))], {own for own, _ in runs}
    parts, left = [], None
    for at, (name, told) in enumerate(zip(names, about["parts"], strict=True)):
        part = read_part(name, f"part {at}", told, files, at in leads)
        left = (left or 0) + sum(table.nbytes for table in part.tables.values())
        check_size(left)
        parts.append(part)
    keys = [parts[own].about["key"] for own, _ in runs]
    for key in keys:
        if keys.count(key) > 1:
            raise refuse(f"run.json names the run {key} twice")
    for own, control in runs:
        if control is not None:
            _check_control(parts[own], parts[control])
    used = _used(names, parts) | _read_maps(about["maps"], parts, files)
    view = read_view(files[VIEW]) if VIEW in files else None
    return Bundle(parts, runs, view, about["made_by"]), used | {VIEW}


def _pairs(runs: list, count: int) -> list[tuple[int, int | None]]:
    """[run, control] as places in a list of `count` parts; each part belongs to a run."""
    if not 1 <= len(runs) <= MOST_RUNS:
        raise refuse(f"run.json: runs must be 1 to {MOST_RUNS}, not {len(runs)}")
    for pair in runs:
        fine = isinstance(pair, list) and len(pair) == 2 and pair[0] is not None
        if not fine or any(p is not None and type(p) is not int for p in pair):
            raise refuse("run.json: runs must be pairs of numbers, a run and its control")
        if pair[0] == pair[1] or not all(p is None or 0 <= p < count for p in pair):
            raise refuse("run.json: runs name a part that is not there")
    if {p for pair in runs for p in pair} - {None} != set(range(count)):
        raise refuse("run.json: a part belongs to no run")
    return [(own, control) for own, control in runs]


def _check_control(run: Part, control: Part | None) -> None:
    asked = read_spec(run.about["spec"]).control
    expected, found = asked and asked.key, control and control.about["key"]
    if expected and not found:
        told = "is neither in the bundle nor here whole; import its own bundle first"
        raise refuse(f"run.json: the control {expected} {told}")
    if found != expected:
        raise refuse(f"run.json: the control is {found}, the spec asks for {expected}")


def _used(names: list[str], parts: list[Part]) -> set[str]:
    pairs = zip(names, parts, strict=True)
    return {f"{name}_{table}.parquet" for name, part in pairs for table in part.tables}


def _read_maps(told: list, parts: list[Part], files: dict[str, bytes]) -> set[str]:
    """Put the maps into their parts; the members that were read."""
    used, known = set(), set()
    for at, place in enumerate(told):
        part = place.get("part") if isinstance(place, dict) else None
        if type(part) is not int or not 0 <= part < len(parts):
            raise refuse(f"run.json: map{at} belongs to no part")
        asked = getattr(parts[part].spec, "settings", None)
        if asked is None:
            raise refuse(f"run.json: map{at} is of a run that has no maps")
        shifts = 2 if asked.protocol == "pair" else asked.modulus
        carried = read_map(f"map{at}", place, files, {"sample": asked.samples, "shift": shifts})
        if (part, carried.place) in known:
            raise refuse(f"run.json: map{at} is there twice")
        known.add((part, carried.place))
        parts[part] = parts[part]._replace(maps=(*parts[part].maps, carried))
        used |= {f"map{at}.npy", f"map{at}.json"}
    return used
