"""A random Llama of some thousand weights and a byte-pair tokenizer, made on the spot.

Enough of a model to drive the whole pipeline in a second: its answers mean nothing.
"""

from __future__ import annotations

from pathlib import Path

CORPUS = (
    "The access code for the archive is 482915. The corridor is cleaned every morning before the "
    "staff arrive. Question: What is the access code? Answer: The access code is "
) * 4


def make_model(folder: Path, layers: int = 2, hidden: int = 32, seed: int = 0) -> Path:
    """Save model and tokenizer as a folder that transformers loads; returns it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=0,
        tie_word_embeddings=True,
    )
    torch.manual_seed(seed)
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_other(folder: Path, config: str) -> Path:
    """Save a tiny model of another architecture, by the name of its config in transformers."""
    import transformers as hf

    tokenizer = make_tokenizer()
    made = getattr(hf, config)(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    hf.AutoModelForCausalLM.from_config(made).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer():
    """Byte-level BPE trained on two sentences; digits are single tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|end|>", eos_token="<|end|>"
    )
