"""The house keeps its rules: arrows point one way, files stay small, the README is true."""

import ast
import re
import shlex
import subprocess
from pathlib import Path

import pytest

import engine.tasks  # noqa: F401  (fills the registry)
from engine.memory import MEMORIES
from engine.registry import TASKS
from engine.specs import PROTOCOLS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
FORBIDDEN = {
    "engine": {"streamlit", "plotly", "app"},
    "app/figures": {"streamlit", "engine"},
    "engine/analysis": {"torch", "duckdb"},
}
SOURCES = [p for folder in ("engine", "app", "tests") for p in (ROOT / folder).rglob("*.py")]


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_point_one_way(folder):
    for path in (ROOT / folder).rglob("*.py"):
        found = {name.split(".")[0] for name in imports(path)} & FORBIDDEN[folder]
        assert not found, f"{path} imports {found}"


def test_the_app_knows_the_engine_only_through_its_client():
    for path in (ROOT / "app").rglob("*.py"):
        found = {n for n in imports(path) if n.split(".")[0] == "engine"}
        assert found <= {"engine", "engine.client", "engine.specs"}, f"{path} imports {found}"


def test_only_the_store_speaks_sql_and_only_the_memory_sees_attention():
    for path in (ROOT / "engine").rglob("*.py"):
        inside = path.relative_to(ROOT / "engine").parts[0]
        if inside not in ("store", "bench"):
            assert "duckdb" not in set(imports(path)), path
        if "ALL_ATTENTION_FUNCTIONS" in path.read_text():
            # Putting entries back needs a mask for each head, which no model passes on.
            assert path.name in ("attention.py", "restore.py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_file_is_over_400_lines(path):
    assert len(path.read_text().splitlines()) <= 400


def test_the_tree_stays_under_25_megabytes():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a checkout: what is tracked is not known")
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert sum(file.stat().st_size for file in files if file.is_file()) < 25_000_000


@pytest.mark.parametrize("name", [*MEMORIES, *TASKS, *PROTOCOLS])
def test_the_readme_names_every_method(name):
    assert f"`{name}`" in README


def test_every_preset_of_a_memory_in_the_readme_exists():
    rows = re.findall(r"^\| `(\w+)` \| .*?presets (.+) \|$", README, re.MULTILINE)
    assert rows
    for kind, told in rows:
        known = {o["name"]: o for o in MEMORIES.schema()[kind]["fields"]}["preset"]["choices"]
        assert set(re.findall(r"`(\w+)`", told)) <= set(known), kind


def test_every_command_in_the_readme_exists():
    """Each `phasescope …` line parses against the real command line, options included."""
    import typer.main

    from engine.cli import app

    root = typer.main.get_command(app)
    lines = re.findall(r"^\.venv/bin/phasescope (.+)$", README, re.MULTILINE)
    assert len(lines) >= 8
    for line in lines:
        name, *words = shlex.split(line)
        assert name in root.commands, line
        root.commands[name].make_context(name, words, resilient_parsing=False)


def test_every_make_target_in_the_readme_exists():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"`?make ([a-z]+)", README)):
        assert f"\n{target}:" in makefile, target


@pytest.mark.parametrize("name", ["chromium", "chromium-browser", "google-chrome", ""])
def test_make_test_finds_the_browser_by_each_of_its_names(name, tmp_path):
    makefile = (ROOT / "Makefile").read_text()
    (recipe,) = re.findall(r"^\t@(command -v chromium.+)$", makefile, re.MULTILINE)
    if name:
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", recipe], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert ("will be skipped" in done.stdout) is (not name)


def test_every_file_in_the_readme_exists():
    tree = README.split("```\nengine/")[1].split("```")[0]
    for line in ("engine/" + tree).splitlines():
        for word in re.findall(
            r"[a-z_]+(?:\.py|/)", line.split("  ")[0] if line[0] != " " else line[:28]
        ):
            found = list(ROOT.glob(f"{word}*")) + list(ROOT.glob(f"*/{word.rstrip('/')}"))
            assert found, word
    for link in re.findall(r"\]\(([\w./]+)\)", README):
        assert (ROOT / link).exists(), link


def test_an_installed_copy_has_all_that_is_read_at_run_time(monkeypatch):
    setuptools = pytest.importorskip("setuptools", "77")
    monkeypatch.chdir(ROOT)
    distribution = setuptools.Distribution({"script_name": "setup.py"})
    distribution.parse_config_files(["pyproject.toml"])
    build = distribution.get_command_obj("build_py")
    build.ensure_finalized()
    lib = Path(build.build_lib)
    packed = {Path(file).relative_to(lib).as_posix() for file in build.get_outputs()}
    read = [
        p for folder in ("presets", "fillers", "models") for p in (ROOT / "data" / folder).glob("*")
    ]
    read += [ROOT / "app" / "style.css", ROOT / "app" / ".streamlit" / "config.toml"]
    read += [*(ROOT / "app" / "assets").glob("*"), *SOURCES]
    expected = {
        p.relative_to(ROOT).as_posix() for p in read if p.is_file() and "tests" not in p.parts
    }
    assert expected <= packed
