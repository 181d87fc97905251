"""Names of methods for a chart: as short as they can be told apart.

Pure: labels in, words out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


def brief(labels: Iterable[str]) -> dict[str, str]:
    """Label → its kind alone where no other label is of that kind, else the label."""
    known = list(dict.fromkeys(labels))
    kinds = Counter(label.partition(", ")[0] for label in known)
    heads = {label: label.partition(", ")[0] for label in known}
    return {label: kind if kinds[kind] == 1 else label for label, kind in heads.items()}
