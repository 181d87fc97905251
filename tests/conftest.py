"""Small tokenizers made on the spot, of the kinds that models use; and SmolLM2's, if installed."""

from __future__ import annotations

import pytest
from hypothesis import settings

from engine.models import catalog

# Test machines are shared: how long an example takes says nothing about the code.
settings.register_profile("phasescope", deadline=None, max_examples=50)
settings.load_profile("phasescope")

WORDS = """okay so very and the well then now notes question answer access code door is it = - x
Read Notes Question Answer The corridor staff window == ==== ======== aaa aaaaaa\n\n"""
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] | trim }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
KINDS = ("bytes", "bos", "trimmed", "metaspace")


def make_tokenizer(kind: str = "bytes"):
    """A BPE trained on a few words: digits stand alone, runs of `=` and `a` merge.

    bos: puts a special in front and one behind.  trimmed: offsets leave out leading spaces, as
    GPT-2 gives them.  metaspace: spaces as U+2581, bytes for what is unknown, as Llama 2 has it.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    specials = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", *(f"<0x{b:02X}>" for b in range(256))]
    metaspace = kind == "metaspace"
    base = Tokenizer(models.BPE(byte_fallback=metaspace, unk_token="<s>" if metaspace else None))
    digits = pre_tokenizers.Digits(individual_digits=True)
    spaces = pre_tokenizers.Metaspace(prepend_scheme="first")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    base.pre_tokenizer = pre_tokenizers.Sequence([spaces, digits] if metaspace else [digits, plain])
    base.decoder = decoders.Metaspace() if metaspace else decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700,
        initial_alphabet=list(map(chr, range(33, 127))) if metaspace else plain.alphabet(),
        special_tokens=specials if metaspace else specials[:4],
        show_progress=False,
    )
    base.train_from_iterator([WORDS] * 4 + [" " + WORDS.replace("\n", " ")] * 4, trainer)
    if kind == "bos":
        base.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    if kind == "trimmed":
        base.post_processor = processors.ByteLevel(trim_offsets=True)
    return PreTrainedTokenizerFast(
        tokenizer_object=base, bos_token="<s>", eos_token="</s>", chat_template=CHAT
    )


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session", params=KINDS)
def any_tokenizer(request):
    return make_tokenizer(request.param)


@pytest.fixture(scope="session")
def smol():
    """SmolLM2's tokenizer.  `make test` and CI install the model; elsewhere a skip says so."""
    if not catalog.installed("smollm2-135m"):
        pytest.skip("smollm2-135m is not installed: run `phasescope pull smollm2-135m`")
    from engine.models.loader import load_tokenizer
    from engine.specs import ModelSpec

    return load_tokenizer(ModelSpec())
