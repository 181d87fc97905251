"""Attention maps inside a bundle: two members each, an array and its labels.

An array is read as numbers alone: nothing in it is ever run.  Knows the form of a side file; knows
no archive and no run.
"""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np

from engine.store.bundle_files import read_json, refuse
from engine.store.store import Store

PLACE = ("layer", "head", "sample", "shift")
LABELS = ("key_kind", "key_start", "key_stop", "query_positions")
KINDS = ("entry", "token")
MOST = 2000  # maps in a bundle
MAX_LABELS = 4 << 20  # bytes of one map's labels
FURTHEST = 1 << 24  # of a token's position
LAYERS, HEADS = 4096, 4096


class CarriedMap(NamedTuple):
    """place: layer, head, sample, shift; weights (queries, keys) float16."""

    place: tuple[int, int, int, int]
    weights: np.ndarray
    labels: dict[str, Any]


def maps_of(store: Store, run: int) -> list[CarriedMap]:
    """The maps of a run whose side files are there, in order of place."""
    sql = f"select {', '.join(PLACE)}, file from maps where run = ? order by all"
    found = []
    for *place, file in store.ask(sql, [run]):
        if made := store.maps.load(file):
            labels = {name: made[1][name] for name in LABELS}
            found.append(CarriedMap(tuple(place), np.asarray(made[0], np.float16), labels))
    return found


def packed(weights: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, np.ascontiguousarray(weights, np.float16), allow_pickle=False)
    return out.getvalue()


def read_map(name: str, place: object, files: dict[str, bytes], limits: dict) -> CarriedMap:
    """The map of the members NAME.npy and NAME.json; `limits`: samples and shifts of its run."""
    limits = {"layer": LAYERS, "head": HEADS} | limits
    if not isinstance(place, dict) or not set(PLACE) <= set(place):
        raise refuse(f"run.json does not say which layer, head and copy {name} is of")
    for field in PLACE:
        if type(place[field]) is not int or not 0 <= place[field] < limits[field]:
            raise refuse(f"run.json: {field} of {name} is not from 0 to {limits[field] - 1}")
    for member in (f"{name}.npy", f"{name}.json"):
        if member not in files:
            raise refuse(f"lacks {member}")
    weights = _weights(f"{name}.npy", files[f"{name}.npy"])
    labels = read_json(files[f"{name}.json"], f"{name}.json", MAX_LABELS)
    _check_labels(f"{name}.json", labels, weights.shape)
    return CarriedMap(tuple(place[field] for field in PLACE), weights, labels)


def _weights(member: str, content: bytes) -> np.ndarray:
    """(queries, keys) float16 in [0, 1]; the header is compared with the size before it is used."""
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        if version != (1, 0):
            raise ValueError
        shape, columns_first, dtype = np.lib.format.read_array_header_1_0(file, 4096)
    except Exception:
        raise refuse(f"{member} is no array that can be read") from None
    if dtype != np.float16 or columns_first or len(shape) != 2 or min(shape) < 1:
        raise refuse(f"{member} is no map: it must be float16, queries by keys, row by row")
    rest = len(content) - file.tell()
    if rest != 2 * shape[0] * shape[1]:
        raise refuse(f"{member} holds {rest} bytes of numbers, its header tells of another size")
    weights = np.frombuffer(content, "<f2", offset=file.tell()).reshape(shape)
    if not np.isfinite(weights).all() or weights.min() < 0 or weights.max() > 1.001:
        raise refuse(f"{member} holds numbers that are no shares of attention")
    return weights


def _check_labels(member: str, labels: object, shape: tuple[int, int]) -> None:
    sizes = dict(zip(LABELS, (shape[1], shape[1], shape[1], shape[0]), strict=True))
    if not isinstance(labels, dict) or set(labels) != set(sizes):
        raise refuse(f"{member} is not as a map's labels")
    for name, count in sizes.items():
        values = labels[name]
        if not isinstance(values, list) or len(values) != count:
            raise refuse(f"{member}: {name} is no list of {count}")
        if name == "key_kind":
            fine = set(map(str, values)) <= set(KINDS) and all(isinstance(v, str) for v in values)
        else:
            fine = all(type(v) is int and 0 <= v <= FURTHEST for v in values)
        if not fine:
            raise refuse(f"{member}: {name} holds what no map has")
