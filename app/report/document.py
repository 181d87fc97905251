"""The report as one HTML file: words, charts, numbers, specs, provenance; nothing from outside.

All text is escaped; figures are data that the inlined Plotly draws.  Charts stay light, as saved
pictures do; the text follows the reader's light or dark.
"""

from __future__ import annotations

import functools
import json
from base64 import b64encode
from datetime import UTC, datetime
from html import escape
from importlib import resources
from pathlib import Path

from app.compare.table import table
from app.figures.theme import LIGHT
from app.report import numbers
from app.report.charts import Chart, charts, subject_of
from app.report.material import Client, Material, gather
from app.report.sheet import SHEET
from app.style import whole_names
from app.words import count, sentence

LOGO = Path(__file__).resolve().parents[1] / "assets"
FONTS = {  # family → (start of the file's name in Streamlit's package, weights)
    "Source Sans": ("SourceSansVF-Upright", "200 900"),
    "Source Serif": ("SourceSerifVariable-Roman", "200 900"),
}
DRAW = """
const charts = JSON.parse(document.getElementById("charts").textContent);
for (const [name, chart] of Object.entries(charts)) {
  const place = document.getElementById(name);
  Plotly.newPlot(place, chart.data, chart.layout, {displayModeBar: false, responsive: true})
    .then(() => { place.dataset.drawn = "yes"; });
}
"""


def report(client: Client, keys: list[str], *, base: str = "", view: str = "") -> str:
    """The whole file for one run, several, or a saved view; NotFound and Refused as the client."""
    return document(gather(client, keys, base, view))


def document(material: Material) -> str:
    drawn = charts(material)
    words = opening(material)
    body = [words, numbers.key_numbers(material)]
    if material.told:
        shown = table(subject_of(material), LIGHT, every=False, progress={})
        body.append(f"<section>{shown}</section>")
    body += sections(drawn)
    told = "".join(numbers.details(run) for run in material.runs)
    body.append(f'<div class="runs">{told}</div>')
    title = headline(material)
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data: blob:; font-src data:; style-src 'unsafe-inline'; "
        "script-src 'unsafe-inline' blob:; worker-src blob:\">"
        f"<title>{escape(title)}</title>"
        f"<style>{faces()}{SHEET}</style></head>"
        f"<body><main>{masthead()}{''.join(body)}{foot(material)}</main>"
        f'<script type="application/json" id="charts">{data(drawn)}</script>'
        f"<script>{plotly()}</script><script>{DRAW}</script></body></html>\n"
    )


def masthead() -> str:
    """The product's name, for light and for dark."""
    source = {
        theme: b64encode((LOGO / f"logo-{theme}.svg").read_bytes()).decode()
        for theme in ("light", "dark")
    }
    return (
        '<header><picture><source media="(prefers-color-scheme: dark)" '
        f'srcset="data:image/svg+xml;base64,{source["dark"]}">'
        f'<img src="data:image/svg+xml;base64,{source["light"]}" alt="Phasescope"></picture>'
        "</header>"
    )


def headline(material: Material) -> str:
    """The finding of the comparison or of the run; the view's name where nothing was found."""
    found = (material.told or {}).get("finding")
    if not found and len(material.runs) == 1:
        found = material.runs[0].get("finding")
    if not found and material.view:
        found = material.view.get("name")
    return found or (
        "Not measured yet" if len(material.runs) == 1 else count(len(material.runs), "run")
    )


def opening(material: Material) -> str:
    """Context, finding, doubt; the view's name and note where the report is of one."""
    view, told = material.view or {}, material.told or material.runs[0]
    doubts = [told.get("doubt") or "" if material.told or len(material.runs) == 1 else ""]
    doubts += [sentence(str(warning)) for warning in told.get("warnings") or ()]
    if material.reason:
        doubts.append(f"These runs are not compared: {material.reason}")
    parts = [f'<p class="context">{escape(context(material))}</p>']
    if view:
        parts.append(f'<p class="view">{escape(str(view.get("name") or ""))}</p>')
    parts.append(f"<h1>{escape(whole_names(headline(material)))}</h1>")
    whole = " ".join(d.rstrip(".") + "." for d in doubts if d.strip())
    parts += [f'<p class="doubt">{escape(whole)}</p>'] if whole else []
    if view.get("note"):
        parts.append(f'<p class="note written">{escape(str(view["note"]))}</p>')
    return "".join(parts)


def context(material: Material) -> str:
    runs = material.runs
    models = list(dict.fromkeys(str((r["spec"].get("model") or {}).get("id", "")) for r in runs))
    model = models[0].rstrip("/").rpartition("/")[2] if len(models) == 1 else "several models"
    if len(runs) > 1:
        return f"Comparison · {model} · {count(len(runs), 'run')}"
    run = runs[0]
    return " · ".join(str(p) for p in (run.get("title"), model, run.get("phrase")) if p)


def sections(drawn: list[Chart]) -> list[str]:
    """Charts under their headings; two halves beside each other."""
    out, open_ = [], False
    for i, chart in enumerate(drawn):
        head = f"<h2>{escape(chart.heading)}</h2>" if chart.heading else ""
        head += f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
        place = (
            f'<figure class="chart" id="chart-{i}" role="img" aria-label="{escape(chart.spoken)}" '
            f'style="height:{int(chart.figure.layout.height or 300)}px"></figure>'
        )
        before = drawn[i - 1] if i else None
        if chart.half and not (open_ and before and before.half):
            out.append(f'<section>{head}<div class="pair">{place}')
            open_ = True
        elif chart.half:
            out.append(f"{place}</div></section>")
            open_ = False
        else:
            out += ["</div></section>"] if open_ else []
            open_ = False
            out.append(f"<section>{head}{place}</section>")
    if open_:
        out.append("</div></section>")
    return out


def data(drawn: list[Chart]) -> str:
    """All figures as JSON that cannot end its own script element."""
    whole = {f"chart-{i}": json.loads(chart.figure.to_json()) for i, chart in enumerate(drawn)}
    return safe(json.dumps(whole, ensure_ascii=True, separators=(",", ":")))


def safe(text: str) -> str:
    """JSON in which no character has a meaning to HTML."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


@functools.cache
def plotly() -> str:
    """Plotly's own bundle; a `</script` in it would end the element, so it is split."""
    source = resources.files("plotly") / "package_data" / "plotly.min.js"
    return source.read_text("utf-8").replace("</script", "<\\/script")


@functools.cache
def faces() -> str:
    """The two typefaces, inlined from Streamlit's package; none where it holds them no more."""
    try:
        media = Path(str(resources.files("streamlit"))) / "static" / "static" / "media"
        held = list(media.glob("*.woff2"))
    except (ModuleNotFoundError, OSError):
        return ""
    out = []
    for family, (start, weights) in FONTS.items():
        file = next((f for f in held if f.name.startswith(start)), None)
        if file:
            out.append(
                f"@font-face{{font-family:'{family}';font-weight:{weights};"
                f"src:url(data:font/woff2;base64,{b64encode(file.read_bytes()).decode()})"
                "format('woff2')}"
            )
    return "".join(out)


def foot(material: Material) -> str:
    keys = ", ".join(run["key"] for run in material.runs)
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    told = f"Made {made} from {keys}. Charts: drag to zoom, double-click to return."
    return f"<footer>{escape(told)}</footer>"
