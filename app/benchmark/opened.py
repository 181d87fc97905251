"""One memory opened: curve, fold, within the window and across it, key numbers, progress."""

from __future__ import annotations

import streamlit as st

from app import export, services, state
from app.benchmark import claims, family
from app.benchmark.subject import Missing, Opened, find
from app.explore.details import toml
from app.figures.folded import folded as fold_figure
from app.figures.marks import Mark, mark, recoloured
from app.figures.residues import Line, by_residue
from app.figures.theme import OPENED, Look, look_of
from app.figures.within import within
from app.style import html_of, text
from app.words import NOTHING, between, count, number, p_value, seconds, sentence

HELP = {
    "Mean": "Mean {noun} over residues, Ā, with a 95 % interval from resampling prompts.",
    "Worst residue": "The smallest {noun} of one residue, A_min, with its {interval}.",
    "Gap over phases": "Δ = largest minus smallest phase of the fold, in fractions. A maximum "
    "less a minimum is biased upward: what chance gives stands below, each prompt's folded curve "
    "rotated at random.",
    "Gap over residues": "Δ = largest minus smallest residue, in fractions; nothing is folded.",
    "Period": "The smallest period whose fold explains the mean curve beyond chance, or a multiple "
    "of it that adds to that; p is of there being any period. Max-T permutation test of residues "
    "within prompts.",
    "Full cache": "Mean {noun} of the control on the same prompts, with its gap over residues.",
}
STATUS = {
    "failed": "This run failed",
    "cancelled": "This run was cancelled",
    "incomplete": "This run is incomplete",
    "none": "Not run yet",
    "missing": "Not trained here",
}


def settle(members: list[dict], seen: list[dict]) -> Opened | None:
    """What is open; a name or key that is not here is told and the default opens."""
    try:
        return find(members, seen)
    except Missing as missing:
        told = (
            f"No member and no run {str(missing)[:64]!r} here. The link may be cut short, or "
            f"belong to another machine."
        )
        with st.container(key="missing", horizontal=True, vertical_alignment="center"):
            st.html(html_of("error", told), width="content")
            st.button("Close", key="close-missing", on_click=state.open_below, type="tertiary")
        return None


def opened(subject: Opened, members: list[dict], measure: str) -> None:
    """Heading, numbers and charts of what is open."""
    look = look_of(state.theme())
    places = family.places(members)
    place = places.get((subject.member or {}).get("name", ""), 0)
    drawn = mark(place, look)
    if subject.active:
        _running(subject)
        return
    report = subject.report
    if not report.get("residues"):
        text(
            "section",
            f"{subject.label}: {STATUS.get(subject.status, 'not run yet').lower()}",
            tag="h2",
        )
        _what_to_do(subject)
        return
    text("section", claims.opened(subject.label, report, subject.stride), tag="h2")
    st.html(html_of("doubt", _line(subject)))
    _numbers(subject)
    _charts(subject, drawn, measure, look)


def _line(subject: Opened) -> str:
    told = [claims.opened_line(subject.report, subject.stride)]
    run = subject.run or {}
    if (own := family.drawn(subject.report)) != "Accuracy":
        told.insert(0, f"The measure is the {own.lower()}, not accuracy.")
    if subject.status not in ("done", "none"):
        told.insert(0, f"{STATUS.get(subject.status, sentence(subject.status))}.")
    if run.get("stale") or (subject.member or {}).get("stale"):
        told.append("From an older code version.")
    told += [sentence(w) for w in subject.report.get("warnings") or ()]
    return " ".join(t if t.endswith((".", "?")) else t + "." for t in told if t)


def _what_to_do(subject: Opened) -> None:
    reason = (subject.run or {}).get("reason") or ""
    if reason:
        st.html(html_of("doubt", sentence(str(reason)).rstrip(".") + "."))
    if subject.status == "missing":
        name = (subject.member or {}).get("name") or "NAME"
        text("note", f"Train it: phasescope train {name}. Then run its benchmark here.")
        return
    label = "Run" if subject.status == "none" else "Run again"
    if st.button(label, key="opened-run", type="primary", disabled=state.read_only()):
        refused = services.submit(subject.spec, subject.label).errors
        for _, message in refused:
            text("error", sentence(message))
        if not refused:
            st.rerun()


def _running(subject: Opened) -> None:
    """Progress once a second until the run ends; then the page draws its numbers."""
    text("section", f"{subject.label}: measuring", tag="h2")
    text("doubt", "The curve appears when all copies are in. The page may be closed.")

    @st.fragment(run_every="1s")
    def now() -> None:
        fresh = services.run(subject.key) or {}
        if fresh.get("status") not in services.ACTIVE:
            services.forget()
            st.rerun()
        st.progress(*progress(fresh))

    now()
    if st.button("Cancel", key="opened-cancel"):
        services.cancel(subject.key)
        st.rerun()


def progress(run: dict) -> tuple[float, str]:
    """(share, `1 200 of 4 608 copies, about 95 s left`)."""
    told = run.get("progress") or {}
    done, total = int(told.get("done") or 0), int(told.get("total") or 0)
    if run.get("status") == "queued":
        return 0.0, "Waiting for the worker to take it"
    if services.stopping(str(run.get("key") or "")):
        return min(1.0, done / max(1, total)), services.STOPS
    if not total:
        return 0.0, "Loading the model"
    line = f"{done:,} of ".replace(",", "\u202f") + count(total, "copy", "copies")
    left = told.get("seconds_left")
    if not done and left is None:
        return 0.0, f"Loading the model: {line}"
    return min(1.0, done / total), line + (f", about {seconds(left)} left" if left else "")


def _numbers(subject: Opened) -> None:
    """Five numbers, each with what it is to be read against."""
    report, control = subject.report, subject.control_report()
    period = report.get("period") or {}
    gap, folded = claims.spread(report), report.get("folded_gap") is not None
    null = report.get("gap_null")
    own = family.drawn(report)
    spread = "Wilson 95 % interval" if own == "Accuracy" else "95 % interval by resampled prompts"
    chance = "" if null is None else f"{number(null, 2)} by chance, {p_value(report.get('gap_p'))}"
    worst = report.get("worst_residue")
    where = "" if worst is None else f"residue {worst}"
    span = between(report.get("worst_low"), report.get("worst_high"))
    items = [
        (
            "Mean",
            number(report.get("mean")),
            between(report.get("mean_low"), report.get("mean_high")),
        ),
        ("Worst residue", number(report.get("worst")), ", ".join(filter(None, [where, span]))),
        (f"Gap over {'phases' if folded else 'residues'}", number(gap), chance),
        (
            "Period",
            str(period.get("detected") or "none"),
            f"stride {period.get('configured') or 'none'}, {p_value(period.get('p'))}",
        ),
    ]
    if control.get("mean") is not None:
        told = f"residue gap {number(control.get('gap'))}, period "
        told += str((control.get("period") or {}).get("detected") or "none")
        items.append(("Full cache", number(control["mean"]), told))
    for column, (label, value, note) in zip(st.columns(5), items, strict=False):
        column.metric(
            label,
            value or NOTHING,
            note or "\u00a0",
            delta_color="off",
            delta_arrow="off",
            help=HELP[label].format(noun=own.lower(), interval=spread),
        )


def _charts(subject: Opened, drawn: Mark, measure: str, look: Look) -> None:
    report, stride = subject.report, subject.stride
    own = family.drawn(report)  # the fold in two parts is the service's, of the run's measure
    split = report.get("within_gap") is not None and bool(stride)
    has_fold = bool(stride) and stride > 1 and subject.modulus % stride == 0
    shares = [11.6, 6.8] if has_fold else [1]
    columns = st.columns(shares, gap="medium")
    with columns[0]:
        _curve(subject, drawn, measure, look)
    if has_fold and not split:  # a split one has its fold in two parts, and whole below
        with columns[1]:
            fold(subject, drawn, measure, look)
    if split:
        with columns[1]:
            frame = family.folded(report)
            fig = within(
                frame,
                stride=stride,
                mark=drawn,
                windows=subject.modulus // stride,
                control=family.fold(subject.control(own), stride),
                look=look,
            )
            export.chart(
                fig,
                frame.assign(
                    part=["boundary" if p == stride - 1 else "within" for p in frame.phase]
                ),
                "within",
                look,
                alt=f"Points: {own.lower()} by offset, within {number(report['within_gap'])}, "
                f"boundary {number(report['boundary'])}",
                width=480,
            )


def _curve(subject: Opened, drawn: Mark, measure: str, look: Look) -> None:
    stride, report = subject.stride, subject.report
    measure = family.drawn(report, measure)
    frame = family.curve(report, measure)
    control = subject.control(measure)
    noun = "Probability of the answer" if measure == "Gold probability" else measure
    told = [f"Bands: one stride of {stride}."] if stride and stride > 1 else []
    told += ["Dotted: chance."] if report.get("chance") is not None else []
    told.append("Ribbon: Wilson 95 %" if measure == "Accuracy" else "Ribbon: 95 %, by prompt")
    fig = by_residue(
        [Line("", frame, drawn)],
        title=f"{noun} by residue, {subject.label}",
        subtitle=" ".join(told),
        modulus=subject.modulus,
        stride=stride,
        control=control,
        chance=report.get("chance"),
        boundary=report.get("within_gap") is not None,
        measure="accuracy" if measure == "Accuracy" else "probability",
        look=look,
    )
    table = frame
    if len(control):
        flat = control[["residue", "value"]].rename(columns={"value": "full_cache"})
        table = frame.merge(flat, on="residue", how="left")
    low, high = (frame["value"].min(), frame["value"].max()) if len(frame) else (0, 0)
    alt = f"Line: {noun.lower()} by residue, from {low:.2f} to {high:.2f}"
    export.chart(fig, table, "accuracy-by-residue", look, alt=alt)


def fold(subject: Opened, drawn: Mark, measure: str, look: Look) -> None:
    """The service's fold with its intervals; of another measure than the run's plain means."""
    stride = subject.stride
    measure = family.drawn(subject.report, measure)
    curve = family.curve(subject.report, measure)
    frame = family.folded(subject.report)
    if measure != family.drawn(subject.report) or not len(frame):
        frame = family.fold(curve, stride)
    dots = curve.assign(phase=curve["residue"].astype(int) % stride)[["phase", "value"]]
    fig = fold_figure(
        frame,
        stride=stride,
        dots=dots,
        control=family.fold(subject.control(measure), stride),
        look=recoloured(look, drawn),
    )
    fig.update_layout(height=OPENED)
    export.chart(fig, frame, "fold", look, alt=f"Points: {measure.lower()} by phase", width=420)


def spec_download(subject: Opened) -> None:
    st.download_button(
        "Spec as TOML",
        lambda: toml(subject.spec).encode(),
        f"{subject.key}.toml",
        "application/toml",
        on_click="ignore",
        key="opened-toml",
    )
