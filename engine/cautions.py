"""What a reader should know before a run: sentences by fixed rules, the gravest first.

Knows samples, copies, the design table and a memory's plan.  Loads no weights, reads no results.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from engine.copies import Copy, LogicalSample
from engine.estimate import has_bf16

FEW_SAMPLES = 6
LOOKED_AT = 256  # copies whose target is checked; all of them would only repeat it


def cautions(
    spec: Any, facts: Any, samples: list[LogicalSample], copies: list[Copy], design: list[dict]
) -> list[str]:
    return [
        *_unasked(spec, facts, copies[:LOOKED_AT]),
        *_idle(spec, copies[:LOOKED_AT]),
        *unrenewed(spec.memory),
        *_pair(samples[0]),
        *_few(samples),
        *_weak(spec),
        *_unlike(spec),
        *slow(spec),
        *_template(spec, samples[0]),
        *_locked(spec, samples),
        *(_unbalanced(samples, design) if spec.settings.protocol != "pair" else ()),
    ]


def _unasked(spec: Any, facts: Any, copies: list[Copy]) -> list[str]:
    """The query sees the target as it is: nothing compressed is asked."""
    if not spec.memory.strides() or getattr(spec.memory, "evicts", False):
        return []
    layers = _layers(spec.memory, facts.n_layers, len(copies[0].tokens))
    exact = sum(target_exact(spec.memory, copy, layers) for copy in copies)
    if not exact:
        return []
    if exact < len(copies):
        return [
            f"In {exact} of {len(copies)} copies the query sees the target exact, uncompressed."
        ]
    return [
        "The query sees the target exact in every copy (in the local window, in an open window or "
        "among the sinks): nothing compressed is asked. Put text between target and question, or "
        "lower the local window."
    ]


def _idle(spec: Any, copies: list[Copy]) -> list[str]:
    """No event: the budget holds the whole prompt, or none is due before its end."""
    if not getattr(spec.memory, "evicts", False):
        return []
    from engine.eviction.schedule import resident

    after, longest = spec.memory.when != "streamed", max(len(copy.tokens) for copy in copies)
    read = max(copy.context_end for copy in copies) if after else 0
    if resident(spec.memory, read, longest - read).events:
        return []
    if longest > spec.memory.budget:
        return [
            f"Nothing is evicted: no event comes within the {longest:,} tokens. Lower the budget, "
            "or take a longer prompt."
        ]
    return [
        f"Nothing is evicted: the budget holds all of the {longest:,} tokens. Lower it, or take a "
        "longer prompt."
    ]


def unrenewed(memory: Any) -> list[str]:
    """A sweep's beacons that one event after another finds as they were."""
    if not frozen(memory) or memory.when != "streamed":
        return []
    return [
        "An event comes before the latest queries are new: beacons are renewed at events alone. A "
        "larger budget renews them in between."
    ]


def frozen(memory: Any) -> bool:
    """Whether a method has beacons that only its events renew (SCIENCE §6.1)."""
    stays = getattr(memory, "renewed_at_events_only", False)
    return stays and memory.n_beacon > 0 and memory.selector not in ("initial", "recent")


def slow(spec: Any) -> list[str]:
    """Half precision on a processor that has no instructions for it."""
    half = spec.model.dtype in ("bfloat16", "float16")
    if not half or spec.model.device != "cpu" or has_bf16():
        return []
    return [
        f"This processor has no {spec.model.dtype} arithmetic: float32 is several times faster."
    ]


def _layers(memory: Any, n_layers: int, length: int) -> list[int]:
    """One layer for each different plan: layers of one stride hide the same tokens."""
    import torch

    found: dict[bytes, int] = {}
    for layer in range(n_layers):
        made = memory.plan(layer, length, torch.zeros(1, dtype=torch.int64))
        if made is not None:
            found.setdefault(made.covered.numpy().tobytes(), layer)
    return list(found.values())


def target_exact(memory: Any, copy: Copy, layers: list[int]) -> bool:
    """Whether the query sees every target token as it is in these layers (SCIENCE §1, rule 2)."""
    import torch

    after = getattr(memory, "when", "streamed") == "after_context"
    query, target = torch.tensor([copy.query_position]), torch.arange(*copy.target)
    for layer in layers:
        made = memory.plan(layer, len(copy.tokens), torch.tensor([copy.origin]))
        seen = made.exact_tokens(query, copy.context_end if after else None, target)
        if not bool(seen.all()):
            return False
    return True


def _pair(sample: LogicalSample) -> list[str]:
    """By how many tokens two documents differ: one only if the tokenizer says so."""
    if sample.shifted is None:
        return []
    by = len(sample.shifted.tokens) - len(sample.tokens)
    if not by:
        return ["For this tokenizer both documents have the same length: no phase moves."]
    longer = "longer" if by > 0 else "shorter"
    if abs(by) == 1:
        return [f"For this tokenizer the second document is one token {longer} than the first."]
    return [f"For this tokenizer the second document is {abs(by)} tokens {longer}, not one."]


def _few(samples: list[LogicalSample]) -> list[str]:
    if len(samples) == 1:
        return ["One prompt: the curve shows what this prompt does, and says nothing about others."]
    if len(samples) < FEW_SAMPLES:
        return [f"Only {len(samples)} samples: intervals will be wide; 12 are a fair start."]
    return []


def _weak(spec: Any) -> list[str]:
    if spec.settings.protocol != "lengthen":
        return []
    return [
        "Lengthen is the weakest protocol: length and query position move with the target. The "
        "control shows how much of the curve is the prompt's own."
    ]


def _unlike(spec: Any) -> list[str]:
    """Prompts that cannot be padded alike, so that only the grid moves."""
    number = getattr(spec.task, "unlike", int)()
    if not number or spec.settings.protocol != "grid_origin":
        return []
    return [
        f"Prompt {number} has not the {{{{pad}}}} marks that others have, so nothing is padded in "
        "any prompt: only the window grid moves (grid_origin). Mark all prompts alike to pad them."
    ]


def _template(spec: Any, sample: LogicalSample) -> list[str]:
    """Template phase: where the user's own text starts (SCIENCE §2)."""
    stride = spec.stride
    if not getattr(spec.task, "chat", False) or not stride:
        return []
    lead = next((i for i, role in enumerate(sample.roles) if role != "template"), 0)
    return [
        f"The chat template puts {lead} tokens in front, so the text begins at phase "
        f"{lead % stride} of {stride}; another template or system message moves it."
    ]


def _locked(spec: Any, samples: list[LogicalSample]) -> list[str]:
    """Without padding the targets of all samples would stand at few phases (SCIENCE §2)."""
    stride = spec.stride
    if not stride or stride == 1 or len(samples) < 4 or spec.settings.protocol == "pair":
        return []
    phases = Counter(sample.target[0] % stride for sample in samples)
    if len(phases) > 1 and len(phases) * 2 > stride:
        return []
    shown = ", ".join(map(str, sorted(phases)))
    return [
        f"Without padding all {len(samples)} targets would stand at phase {shown} of {stride}: the "
        "template and the text in front lock them there, and a test set made like this would see "
        "no other phase."
    ]


def _unbalanced(samples: list[LogicalSample], design: list[dict]) -> list[str]:
    """Residue groups whose targets' mean positions differ by more than a quarter of R."""
    means = [row["target_mean"] for row in design]
    spread = max(means) - min(means)
    if len(samples) < FEW_SAMPLES or spread <= max(2.0, len(means) / 4):
        return []
    return [
        f"The residue groups differ by {spread:.1f} tokens in the mean position of the target "
        "(design table): a slow trend over positions can look like a difference between residues."
    ]
