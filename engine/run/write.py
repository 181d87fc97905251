"""What the model would write: a greedy continuation under a memory."""

from __future__ import annotations

from typing import Any

import torch

from engine.copies import Copy
from engine.models.head import Head
from engine.run.read import reader


def write(spec: Any, loaded: Any, copy: Copy, length: int = 24) -> str:
    """Text of at most `length` greedy tokens after the copy's prompt; ends at the end token."""
    model, head = loaded.model, Head(loaded.model)
    ends = model.generation_config.eos_token_id
    ends = set(ends if isinstance(ends, list) else [ends])
    cache, written = loaded.new_cache(), []
    ids = torch.tensor([copy.tokens], device=model.device)
    with reader(loaded, spec.memory, [copy]):
        for _ in range(length):
            out = model.base_model(ids, cache=cache, use_cache=True)
            token = int(head.logits(out.last_hidden_state[:, -1]).argmax())
            if token in ends:
                break
            written.append(token)
            ids = torch.tensor([[token]], device=model.device)
    return loaded.tokenizer.decode(written, skip_special_tokens=False)
