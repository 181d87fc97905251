"""`python -m app.report KEY[,KEY…] --to f.html`: write a report over the running service.

A client of the service like a page; without a running one, the service is embedded while it asks.
Exit codes are the command line's: 0 written, 2 bad input, 3 the service failed.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.report import report
from engine import client as service
from engine.client import NotFound, Refused, ServiceFailed, Unavailable

BAD_INPUT, FAILED = 2, 3


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m app.report", description=__doc__)
    parser.add_argument("keys", nargs="?", default="", help="KEY, or KEY,KEY,… to compare runs")
    parser.add_argument("--to", required=True, type=Path, help="an .html file")
    parser.add_argument("--base", default="", help="the baseline's key")
    parser.add_argument("--view", default="", help="a saved view's link")
    asked = parser.parse_args(words)
    keys = [key.strip() for key in asked.keys.split(",") if key.strip()]
    try:
        with service.service(lambda told: print(told, file=sys.stderr)) as client:
            whole = report(client, keys, base=asked.base, view=asked.view)
        asked.to.write_text(whole, encoding="utf-8")
    except (NotFound, Refused) as error:
        print(_told(error), file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        print(f"{asked.to}: {error.strerror or error}", file=sys.stderr)
        return BAD_INPUT
    except (ServiceFailed, Unavailable) as error:
        print(error, file=sys.stderr)
        return FAILED
    return 0


def _told(error: NotFound | Refused) -> str:
    if isinstance(error, NotFound):
        return str(error)
    told = [e if isinstance(e, dict) else {"field": e[0], "message": e[1]} for e in error.errors]
    return "\n".join(": ".join(filter(None, (e["field"], e["message"]))) for e in told)


if __name__ == "__main__":
    sys.exit(main())
