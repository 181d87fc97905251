"""What a run that met the end of memory is told: its estimate, and what of it needs less.

Knows specs, prompts and estimates.  Loads no weights.
"""

from __future__ import annotations

import logging
from typing import Any

from engine.estimate import Estimate, size
from engine.kinds import DECODE, kind_of, read_spec

log = logging.getLogger(__name__)

SHORT = "there was not enough memory"


def told(spec: dict, whole: bool) -> str:
    """One sentence.  `whole`: all of the run was asked, not one copy or sample of it."""
    if whole and (needs := needed(spec)):
        return f"{SHORT}: {needs}"
    return f"{SHORT}; a shorter prompt or bfloat16 needs less"


def if_killed(spec: Any) -> str:
    """A system kills at once, and says to nobody why, what it has no memory for."""
    needs = needed(spec.to_dict())
    return ". If the system ended it for lack of memory: " + needs if needs else ""


def needed(spec: dict) -> str:
    """The estimate of a whole run and what of it needs less; "" where none can be made any more."""
    try:
        cost = _cost(read_spec(spec))
    except Exception:
        # Whatever has gone meanwhile (a model, the last of the memory), the first reason is told.
        log.exception("no estimate for a run that ended")
        return ""
    return f"the run's estimate is {size(cost.bytes)}; {cost.less}"


def _cost(spec: Any) -> Estimate:
    from engine.models.loader import facts, load_tokenizer

    about, tokenizer = facts(spec.model), load_tokenizer(spec.model)
    if kind_of(spec) == DECODE:
        from engine.decode.plan import estimate as of_decode
        from engine.eviction.arms import arms, prompt_tokens

        length = prompt_tokens(spec.task.samples(tokenizer, spec.samples, spec.seed))
        return of_decode(spec, about, arms(spec, length), length)
    from engine.build import build, scored
    from engine.estimate import estimate

    copies = build(spec, tokenizer, about)
    return estimate(spec, about, len(copies), max(map(scored, copies)))
