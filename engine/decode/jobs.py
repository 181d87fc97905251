"""A decode run's part of the queue: ask the worker for what is missing, keep what it sends.

Knows a decode run's events and rows.  Knows nothing of processes, cancels or models.
"""

from __future__ import annotations

from typing import Any

from engine.jobs import Progress
from engine.store import Job, Run
from engine.store.ledger import shortage


def compute(queue: Any, job: Job, run: Run, spec: Any, progress: Progress) -> str:
    """Have the worker compute what is missing; "" or a sentence on parts that are not there.

    A part is one arm (a method at a budget) on one sample; a batch brings some parts of one arm.
    """
    store, ids = queue.store, {"run": run.id}
    if run.provenance.get("libraries") and store.verify(run.id):
        return ""
    have = store.decode_stored(run.id)
    try:
        for kind, content in queue.ask(job, "decode", spec=spec.to_dict(), have=have):
            if kind == "planned":
                progress.total, progress.done = content["parts"], content["parts"] - content["left"]
                about = store.run(run.id).provenance | content["about"]
                store.change(
                    run.id,
                    copies=content["parts"],
                    answers_expected=content["parts"],
                    provenance=about,
                )
            elif kind == "batch":
                store.add_decode(run.id, content["arm"], content["samples"], content["tables"])
                new = {(content["arm"], sample) for sample in content["samples"]} - have
                progress.spend("run", len(new), content["tokens"], content["seconds"])
    finally:
        queue.book(ids, progress)
    # How much is written behind a prompt is known when it has been: a text may end early.
    store.change(run.id, tokens_expected=store.counts(run.id).tokens)
    queue.sign(ids, progress, {"run": content["provenance"]})
    return "" if store.verify(run.id) else shortage(store.run(run.id))
