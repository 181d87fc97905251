"""A gate's verdict as a table, as JUnit XML and as Markdown.

Pure: a verdict in, text out.  Titles are other people's text: what XML or Markdown would obey is
escaped.
"""

from __future__ import annotations

import html
import platform
import re
import xml.etree.ElementTree as ET
from datetime import UTC, datetime

from engine.analysis.gate_words import apart, asked
from engine.analysis.words import number, prompts

COLUMNS = ("condition", "asked for", "value", "low", "high", "n per phase", "state")
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
OBEYED = re.compile(r"([\\`*_\[\]()#+!|~@$-])")


def about(result: dict) -> str:
    level = f"{100 * (1 - result['alpha']):.12g} %"
    size = len(result["phases"])
    return (
        f"measure: {result['measure']}, {prompts(result['n_samples'])}, {size} "
        f"{result['by']}s, {level} intervals"
    )


def headline(result: dict) -> str:
    state = result["state"]
    if state == "undecided":
        state += ", taken as passed" if result["passed"] else ", taken as not met"
    return f"gate: {state}"


def rows(result: dict) -> list[list[str]]:
    """One a condition, under COLUMNS."""
    return [_row(condition, result) for condition in result["conditions"]]


def _row(condition: dict, result: dict) -> list[str]:
    name, limit = condition["name"], condition["threshold"]
    if name == "worst":
        name = f"worst {result['by']} ({condition['phase']})"
    elif name == "gap":
        name = "gap less chance"
    ends = [apart(condition[end], limit) for end in ("low", "high")]
    each = str(min(phase["n"] for phase in result["phases"]))
    value = number(condition["value"], 3)
    return [name, asked(condition), value, *ends, each, condition["state"]]


# ---- JUnit


def junit(result: dict, seconds: float) -> str:
    """One testcase a condition; a run that failed is one error.

    Elements and attributes are those that both Ant's schema and Jenkins' know.
    """
    cases = [_case(condition, result) for condition in result["conditions"]]
    if result["state"] is None:
        case = ET.Element("testcase", _named(result, "run"))
        told = f"{result['key']} is {result['status']}: {result['reason']}"
        ET.SubElement(case, "error", {"message": _xml(told), "type": result["status"]})
        cases = [case]
    counts = {
        name: str(sum(case.find(tag) is not None for case in cases))
        for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
    }
    suite = ET.Element(
        "testsuite",
        {
            "name": "phasescope.gate",
            "package": "phasescope",
            "id": "0",
            "timestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
            "hostname": _xml(platform.node()) or "localhost",
            "tests": str(len(cases)),
            **counts,
            "time": f"{seconds:.3f}",
        },
    )
    properties = ET.SubElement(suite, "properties")
    for name in ("key", "title", "measure", "n_samples", "by", "stride", "alpha"):
        if result.get(name) is not None:
            value = {"name": name, "value": _xml(result[name])}
            ET.SubElement(properties, "property", value)
    suite.extend(cases)
    notes = [*(_phase(phase, result) for phase in result.get("phases", ())), *result["notes"]]
    ET.SubElement(suite, "system-out").text = _xml("\n".join(notes))
    ET.SubElement(suite, "system-err")
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _case(condition: dict, result: dict) -> ET.Element:
    case = ET.Element("testcase", _named(result, condition["name"]))
    state, text = condition["state"], _xml(condition["text"])
    if state == "undecided" and result["lenient"]:
        ET.SubElement(case, "skipped", {"message": text})
    elif state != "met":
        ET.SubElement(case, "failure", {"message": text, "type": state}).text = text
    return case


def _named(result: dict, name: str) -> dict[str, str]:
    return {"name": name, "classname": f"phasescope.gate.{result['key']}", "time": "0"}


def _phase(phase: dict, result: dict) -> str:
    ends = f"{number(phase['low'], 3)} to {number(phase['high'], 3)}"
    value = number(phase["value"], 3)
    return f"{result['by']} {phase['phase']}: {value} ({ends}), n = {phase['n']}"


def _xml(value: object) -> str:
    """Text without the characters that XML cannot hold, escaped or not."""
    return NOT_XML.sub("\N{REPLACEMENT CHARACTER}", str(value))


# ---- Markdown


def markdown(result: dict) -> str:
    """A summary: the verdict, its conditions, every phase folded away."""
    title = f"{_plain(result['title'])} `{result['key']}`"
    if result["state"] is None:
        told = f"{result['status']}: {result['reason']}"
        return f"## Phasescope: the run failed\n\n{title}\n\n{_plain(told)}\n\n"
    parts = [
        f"## Phasescope {headline(result)}",
        f"{title}  \n{_plain(about(result))}",
        _table(COLUMNS, [[*row[:-1], f"**{row[-1]}**"] for row in rows(result)]),
    ]
    told = [c["text"] for c in result["conditions"] if c["state"] != "met"] + result["notes"]
    if told:
        parts.append("\n".join(f"- {_plain(text)}" for text in told))
    numbers = ("value", "low", "high")
    every = [
        [str(p["phase"]), str(p["n"]), *(number(p[name], 3) for name in numbers)]
        for p in result["phases"]
    ]
    phases = _table((result["by"], "n", *numbers), every)
    parts.append(f"<details><summary>every {result['by']}</summary>\n\n{phases}\n\n</details>")
    return "\n\n".join(parts) + "\n\n"


def _table(columns: tuple[str, ...], lines: list[list[str]]) -> str:
    head = [list(columns), ["---"] * len(columns)]
    return "\n".join("| " + " | ".join(line) + " |" for line in [*head, *lines])


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is, on one line."""
    return OBEYED.sub(r"\\\1", html.escape(" ".join(_xml(text).split()), quote=False))
