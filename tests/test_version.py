"""A stored row is stale when the code that makes numbers changed, and not when its words did."""

from concurrent.futures import ThreadPoolExecutor

from engine import version

SOURCE = '''"""Says something."""


def double(x):
    """Twice x."""
    # a word
    return 2 * x
'''


def meaning(tmp_path, text):
    file = tmp_path / "code.py"
    file.write_text(text)
    return version._meaning(file)


def test_words_about_the_code_are_not_the_code(tmp_path):
    before = meaning(tmp_path, SOURCE)
    for old, new in (
        ("Says something", "Says more"),
        ("Twice", "Two"),
        ("# a word", "# no\n\n    # word"),
    ):
        assert meaning(tmp_path, SOURCE.replace(old, new)) == before
    assert meaning(tmp_path, SOURCE.replace("2 * x", "3 * x")) != before
    assert meaning(tmp_path, SOURCE.replace("double", "twice")) != before


def test_every_numeric_source_counts(monkeypatch):
    before = version._hash(version.NUMERIC, [])
    for part in version.NUMERIC:
        fewer = tuple(p for p in version.NUMERIC if p != part)
        assert version._hash(fewer, []) != before
        assert (version.ENGINE / part).exists()
    assert version._hash(version.NUMERIC, ["torch 0"]) != before


def test_many_threads_may_ask_at_once():
    """Python 3.11's parser broke where two threads parsed: the first requests of a start did."""
    parts = ("analysis", *version.NUMERIC)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: version._hash(parts, []), range(16)))) == 1
