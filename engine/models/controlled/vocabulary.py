"""The words of controlled models: fillers and symbols, each one token, as a fast tokenizer.

Token 0 is unknown, then the fillers, then the symbols: the order in which the models count them.
"""

from __future__ import annotations

import functools
from typing import Any

from engine.models.controlled.config import Config
from engine.tasks.filler import CANDIDATES

WORDS = (
    "amber", "anchor", "apple", "arrow", "basket", "beacon", "birch", "bottle", "bridge",
    "bronze", "butter", "candle", "canyon", "carpet", "castle", "cedar", "circle", "clover",
    "copper", "coral", "cotton", "crystal", "desert", "dragon", "engine", "falcon", "feather",
    "forest", "garden", "ginger", "glacier", "hammer", "harbor", "hazel", "island", "ivory",
    "jacket", "jasmine", "kettle", "ladder", "lantern", "lemon", "linen", "marble", "meadow",
    "mirror", "mountain", "needle", "ocean", "olive", "orange", "orchard", "paper", "pepper",
    "planet", "pocket", "quartz", "ribbon", "river", "saddle", "silver", "spider", "temple",
    "velvet",
)  # fmt: skip


@functools.cache
def tokenizer(fillers: int, symbols: int) -> Any:
    """A PreTrainedTokenizerFast of 1 + fillers + symbols whole words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = [*CANDIDATES[:fillers], *(f" {word}" for word in WORDS[:symbols])]
    table = {"<unknown>": 0} | {text.replace(" ", "Ġ"): i for i, text in enumerate(texts, 1)}
    inner = Tokenizer(models.WordLevel(table, unk_token="<unknown>"))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    inner.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unknown>")


def fits(config: Config) -> bool:
    """Whether there are as many words as the model counts."""
    return config.fillers <= len(CANDIDATES) and config.symbols <= len(WORDS)
