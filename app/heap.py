"""What the process keeps for good is left out of the collections that Streamlit makes.

One follows every run of a page.  Through all that pandas and Plotly have imported it takes a
quarter of a second, in which no page is served.
"""

from __future__ import annotations

import functools
import gc


@functools.cache
def settle(page: str) -> None:
    """Once a page, behind its first run, which has imported what it needs."""
    gc.collect()
    gc.freeze()
