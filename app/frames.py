"""Rows as they are stored → the frames that figures draw.

Knows the columns of `answers` and `tokens` and the report's keys.  Plain means only: intervals,
p-values and findings come from the service.  Knows no Streamlit and no Plotly.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from app.words import visible

PLACES = ("pad", "filler-pad")


def usable(answers: pd.DataFrame) -> pd.DataFrame:
    """Rows of the sweep itself, without those of a layer scan."""
    if len(answers) and "layer" in answers:
        return answers[answers["layer"] < 0]
    return answers


def natural_axis(answers: pd.DataFrame, protocol: str, design: list[dict] | None = None) -> str:
    """`shift` where every sample meets the same residue at a shift, else `residue`; `document`.

    The plan's design table decides where there is one, so that the axis is the same before a run,
    after it, and in another browser.
    """
    if protocol == "pair":
        return "document"
    if design:
        return "shift" if all(row["target_sd"] == 0 for row in design) else "residue"
    if not len(answers):
        return "residue"
    return "shift" if answers.groupby("shift")["residue"].nunique().max() == 1 else "residue"


def first_boundary(
    answers: pd.DataFrame, strip: dict | None, stride: int | None, axis: str, origin: int = 0
) -> int:
    """An x at which a window begins: the grid's origin over residues, by the target's first phase
    over shifts.
    """
    if not stride:
        return 0
    if axis != "shift":
        return origin % stride
    if len(answers):
        row = answers.sort_values("shift", kind="stable").iloc[0]
        return int((int(row["shift"]) - int(row["residue"]) + origin) % stride)
    target = next((t for t in (strip or {}).get("tokens", ()) if t.get("target")), None)
    return (
        0 if not target or target.get("phase") is None else int((origin - target["phase"]) % stride)
    )


def measured(answers: pd.DataFrame, measure: str) -> pd.Series:
    """The measure of each copy, 0 … 1: joint probability, mean token probability, or correct."""
    if measure == "accuracy":
        return answers["correct"].astype(float)
    if measure == "token":
        return answers["token_logprobs"].map(lambda v: float(np.exp(np.asarray(v, float)).mean()))
    return np.exp(answers["logprob"].astype(float))


def curve(answers: pd.DataFrame, axis: str, measure: str, stride: int | None) -> pd.DataFrame:
    """x, value, phase, position: means over samples; without intervals."""
    if not len(answers):
        return pd.DataFrame({"x": [], "value": [], "phase": [], "position": []})
    column = "residue" if axis == "residue" else "shift"
    rows = answers.assign(value=measured(answers, measure))
    grouped = rows.groupby(column)
    frame = grouped["value"].mean().rename_axis("x").reset_index()
    one = (
        grouped["residue"].agg(lambda r: r.iloc[0] if r.nunique() == 1 else np.nan).to_numpy(float)
    )
    frame["phase"] = one % stride if stride else np.nan
    frame["position"] = (
        grouped["target_position"]
        .agg(lambda p: p.iloc[0] if p.nunique() == 1 else np.nan)
        .to_numpy(float)
    )
    return frame


def with_intervals(frame: pd.DataFrame, report: dict, axis: str) -> pd.DataFrame:
    """The curve with the report's values and intervals where it has them."""
    rows = report.get("residues" if axis == "residue" else "shifts") or []
    if not rows:
        return frame
    name = "residue" if axis == "residue" else "shift"
    low, high = ("value_low", "value_high") if "value_low" in rows[0] else ("low", "high")
    known = pd.DataFrame(
        {
            "x": [r[name] for r in rows],
            "value": [r.get("value") for r in rows],
            "low": [r.get(low) for r in rows],
            "high": [r.get(high) for r in rows],
        }
    ).astype(float)
    if not len(frame):
        return known.assign(phase=np.nan, position=np.nan).dropna(subset=["value"])
    merged = frame.drop(columns="value").merge(known, on="x", how="right").dropna(subset=["value"])
    return merged.sort_values("x", ignore_index=True)


def rivals(answers: pd.DataFrame, names: list[str], axis: str) -> pd.DataFrame:
    """name, x, value: probability of each rival at the first answer position."""
    if not len(answers) or not names or "rival_logprobs" not in answers:
        return pd.DataFrame({"name": [], "x": [], "value": []})
    column = "residue" if axis == "residue" else "shift"
    table = pd.DataFrame(
        [
            list(v)[: len(names)] + [np.nan] * (len(names) - len(v))
            for v in answers["rival_logprobs"]
        ],
        columns=range(len(names)),
        index=answers.index,
    ).astype(float)
    table["x"] = answers[column]
    long = np.exp(table.set_index("x")).reset_index().groupby("x").mean()
    parts = [
        pd.DataFrame({"name": name, "x": long.index, "value": long[i].to_numpy()})
        for i, name in enumerate(names)
    ]
    return pd.concat(parts, ignore_index=True).dropna(subset=["value"])


def first_tokens(answers: pd.DataFrame, told: list[dict]) -> bool:
    """Whether a rival's curve is of its first token while an answer or a rival has several.

    `told`: the plan's rivals, text and first token.
    """
    if len(answers) and answers["token_logprobs"].map(len).max() > 1:
        return True
    return any(rival.get("token") not in (None, rival["text"]) for rival in told)


def fold(answers: pd.DataFrame, stride: int, measure: str) -> pd.DataFrame:
    """phase, value: the running mean while no report is there yet."""
    if not len(answers):
        return pd.DataFrame({"phase": [], "value": []})
    value = measured(answers, measure)
    grouped = value.groupby(answers["residue"] % stride).mean()
    return grouped.rename_axis("phase").rename("value").reset_index()


def folded(report: dict | None) -> pd.DataFrame:
    rows = (report or {}).get("folded") or []
    return pd.DataFrame(rows, columns=["phase", "value", "low", "high", "n"]).astype(float)


def residue_dots(answers: pd.DataFrame, stride: int, measure: str) -> pd.DataFrame:
    """phase, value: one dot a residue."""
    if not len(answers):
        return pd.DataFrame({"phase": [], "value": []})
    means = measured(answers, measure).groupby(answers["residue"]).mean()
    return pd.DataFrame({"phase": means.index.to_numpy() % stride, "value": means.to_numpy()})


def spectrum(report: dict | None) -> pd.DataFrame:
    rows = ((report or {}).get("period") or {}).get("spectrum") or []
    frame = pd.DataFrame(rows, columns=["period", "frequency", "power", "share"]).astype(float)
    return frame[np.isfinite(frame["period"])] if len(frame) else frame


def bar_chance(modulus: int | None) -> float | None:
    """Mean share of one bar of the spectrum of R exchangeable values, Nyquist counted once."""
    return None if not modulus or modulus < 2 else 1.0 / max(1, modulus // 2)


def aligned(
    rows: pd.DataFrame, stride: int, protocol: str = "outer", opens: bool = False
) -> pd.DataFrame:
    """Token rows with `index`: the token's own place in the prompt, padding left out, from 0.

    The first token of a copy is in no row, and it is padding in some copies where `opens`, padding
    may stand in front of the prompt: so copies are aligned from their ends.  Two documents share
    their beginning too.  Copies laid out anew hold the same tokens in other places.
    """
    padded = rows["role"] == "pad"
    first = (rows["position"] == 1) & padded
    own = rows[~padded].sort_values(["shift", "position"], kind="stable")
    own = own.assign(target_phase=own["residue"] % stride)
    place = own.groupby("shift").cumcount()
    counts = own.groupby("shift")["position"].transform("size")
    pair = protocol == "pair"
    known = not pair and (counts.min() < counts.max() or bool(opens and first.any()))
    total = counts.max() + (not known)  # tokens of the longest copy, its first one too
    own = own.assign(index=total - counts + place)
    if pair:
        return _one_beginning(own, place)
    if own.groupby("index")["text"].nunique().max() > 1:
        return _by_name(own)
    return own


def _one_beginning(own: pd.DataFrame, place: pd.Series) -> pd.DataFrame:
    """Rows of two documents, what stands before their first difference aligned from the front."""
    texts = own.assign(place=place).pivot(index="place", columns="shift", values="text")
    same = (texts.nunique(axis=1, dropna=False) == 1).cumprod()
    begins = place < int(same.sum())
    own = own.assign(index=own["index"].where(~begins, place + 1))
    return own[own.groupby("index")["text"].transform("nunique") == 1]


def _by_name(own: pd.DataFrame) -> pd.DataFrame:
    """Rows of copies laid out anew: a token is found again by its role and text, a filler is not.

    `index` is its position in the first copy.
    """
    own = own[own["role"] != "filler"]
    name = ["role", "text", "nth"]
    own = own.assign(nth=own.groupby(["shift", "role", "text"]).cumcount()).drop(columns="index")
    places = own[own["shift"] == own["shift"].min()][[*name, "position"]]
    return own.merge(places.rename(columns={"position": "index"}), on=name).drop(columns="nth")


def difference(
    rows: pd.DataFrame,
    stride: int,
    first: int,
    second: int,
    protocol: str = "outer",
    opens: bool = False,
) -> pd.DataFrame:
    """index, text, role, position, origin, phase, difference (nats): mean at `first` minus
    `second`; position, and origin of the copy's grid, of the first whole copy at `first`.

    `opens`: padding may stand before the prompt's first token.
    """
    columns = ["index", "text", "role", "position", "origin", "phase", "difference"]
    if not len(rows):
        return pd.DataFrame(columns=columns)
    table = aligned(rows, stride, protocol, opens)
    means = table.pivot_table(
        index="index", columns="target_phase", values="logprob", aggfunc="mean"
    )
    if first not in means or second not in means:
        return pd.DataFrame(columns=columns)
    at = table[table["target_phase"] == first]
    at = at[at["shift"] == at.groupby("shift").size().idxmax()].set_index("index").sort_index()
    frame = at[["text", "role", "position"]].copy()
    frame["origin"] = at["shift"] if protocol == "grid_origin" else 0
    frame["phase"] = (frame["position"] - frame["origin"]) % stride
    frame["difference"] = means[first] - means[second]
    return frame.dropna(subset=["difference"]).reset_index()[columns]


def top_tokens(rows: pd.DataFrame, stride: int | None, names: dict[int, str]) -> pd.DataFrame:
    """phase, place, token, probability: the likeliest answers at each phase, mean over copies.

    The first answer token is looked at; a token outside a copy's stored list counts as zero there.
    """
    columns = ["phase", "place", "token", "id", "probability", "copies"]
    if not len(rows) or not (rows["role"] == "answer").any():
        return pd.DataFrame(columns=columns)
    first = rows[rows["role"] == "answer"].sort_values("position", kind="stable")
    first = first.groupby("shift").head(1)
    groups = first["residue"] % stride if stride else pd.Series(0, index=first.index)
    out = []
    for phase, members in first.groupby(groups):
        total: dict[int, float] = {}
        for ids, logs in zip(members["top_ids"], members["top_logprobs"], strict=True):
            if ids is None:
                continue
            for token, log in zip(ids, logs, strict=True):
                total[int(token)] = total.get(int(token), 0.0) + math.exp(float(log))
        best = sorted(total.items(), key=lambda item: -item[1])[:10]
        for place, (token, mass) in enumerate(best, start=1):
            name = visible(names[token]) if token in names else f"id {token}"
            out.append((int(phase), place, name, token, mass / len(members), len(members)))
    return pd.DataFrame(out, columns=columns)


def answer_tokens(answers: pd.DataFrame, stride: int | None, pair: bool) -> pd.DataFrame:
    """token, group, probability: each answer token by its own phase (or document), mean of copies.

    The last rows, `token` = −1, are the joint probability of all tokens by the target's phase.
    """
    columns = ["token", "group", "probability"]
    if not len(answers):
        return pd.DataFrame(columns=columns)
    out = []
    for row in answers.itertuples():
        own = row.shift if pair else int(row.residue) % (stride or 1)
        out.append((-1, own, math.exp(row.logprob)))
        for k, log in enumerate(row.token_logprobs):
            place = own
            if not pair and stride and row.token_residues is not None:
                place = int(row.token_residues[k]) % stride
            out.append((k, place, math.exp(log)))
    frame = pd.DataFrame(out, columns=columns)
    means = frame.groupby(["token", "group"], as_index=False)["probability"].mean()
    order = means["token"].where(means["token"] >= 0, len(out))
    return means.loc[order.sort_values(kind="stable").index].reset_index(drop=True)


def autocorrelation(report: dict | None) -> pd.DataFrame:
    """lag, correlation: circular, of the mean curve."""
    values = ((report or {}).get("period") or {}).get("autocorrelation") or []
    return pd.DataFrame({"lag": range(len(values)), "correlation": values})


def likely_ids(rows: pd.DataFrame) -> tuple[int, ...]:
    """Ids that stand among the likeliest at the answer's first token of any copy."""
    if not len(rows):
        return ()
    first = rows[rows["role"] == "answer"].sort_values("position", kind="stable")
    lists = first.groupby("shift").head(1)["top_ids"]
    return tuple(sorted({int(token) for ids in lists if ids is not None for token in ids}))
