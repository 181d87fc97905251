"""From a model's name to its tokenizer, facts and weights; refused in one sentence when not to be
had.

Only safetensors and GGUF are loaded (a pickle can run code), and no code of a model's own
(`trust_remote_code` is off).  Knows nothing about memories, tasks or storage.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from engine.models import catalog
from engine.models.controlled import checkpoint, shelf, vocabulary
from engine.models.controlled.family import family
from engine.models.facts import (
    CONTROLLED,
    REFUSED,
    Facts,
    controlled_facts,
    facts_of,
    unreadable,
)
from engine.models.prints import fingerprint
from engine.registry import FieldError, SpecError, shown, suggest
from engine.specs import ModelSpec

# Fields without which there is no decoder, and the largest value that is taken for one.
SIZES = {
    "num_hidden_layers": 10_000,
    "num_attention_heads": 100_000,
    "hidden_size": 10_000_000,
    "vocab_size": 100_000_000,
}


class Source(NamedTuple):
    """What `from_pretrained` is given: a folder or hub id, and a GGUF file name if it is one."""

    where: str
    options: dict[str, Any]


def refuse(message: str) -> SpecError:
    return SpecError(FieldError("model.id", message))


def locate(model: ModelSpec, weights: bool = False) -> Source:
    """Where the model is, without loading it.  Catalog names must have been pulled."""
    name = model.id.strip()
    if shelf.missing(name):
        raise refuse(f"{name} is not trained here yet; run `phasescope train {name}`")
    if name in catalog.CATALOG:
        if not catalog.installed(name):
            raise refuse(f"{name} is not here yet; run `phasescope pull {name}`")
        return Source(str(catalog.folder(name)), {})
    if path := _path(name):
        return _local(path, name)
    if name.count("/") != 1 or " " in name:
        raise refuse(
            f"no model {shown(name)}: looked in the catalog ({', '.join(catalog.CATALOG)}), among "
            "the controlled models and for a local folder of that name; a Hugging Face id looks "
            f"like org/name{suggest(name, [*catalog.CATALOG, *family()])}"
        )
    return _hub(name, model.revision, weights)


def _path(name: str) -> Path | None:
    """The folder or file that a model's name means, None where it means neither."""
    try:
        path = Path(name).expanduser()
        return path if path.exists() or name.startswith(("/", "./", "../", "~")) else None
    except (OSError, RuntimeError) as error:  # too long a name, not ours to read, no such user
        reason = getattr(error, "strerror", None) or str(error)
        raise refuse(f"{shown(name)} cannot be looked up as a folder: {reason}") from None


def _local(path: Path, name: str) -> Source:
    if path.suffix == ".gguf" and path.is_file():
        return Source(str(path.parent), {"gguf_file": path.name})
    if path.is_file():
        raise refuse(
            f"{name} is one file; only .gguf files load alone, other models are folders with "
            "safetensors"
        )
    if not path.is_dir():
        raise refuse(
            f"no folder {name}; give a folder with config.json and safetensors, or a .gguf file"
        )
    ggufs = sorted(path.glob("*.gguf"))
    if not (path / "config.json").is_file():
        if len(ggufs) == 1:
            return Source(str(path), {"gguf_file": ggufs[0].name})
        raise refuse(
            f"{name} has no config.json; looked for config.json with *.safetensors, or one *.gguf"
        )
    if not list(path.glob("*.safetensors")):
        pickles = [*path.glob("*.bin"), *path.glob("*.pt"), *path.glob("*.pth")]
        found = f" ({pickles[0].name} is a pickle, which can run code)" if pickles else ""
        raise refuse(f"{name} has no *.safetensors{found}; only safetensors and gguf are loaded")
    return Source(str(path), {})


def _hub(name: str, revision: str, weights: bool) -> Source:
    """A snapshot in the local cache, fetched if need be.

    Weights only when they are to be loaded: a look at a prompt's tokens downloads no gigabytes.
    """
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    options = {"revision": revision or None}
    wanted = ["*.json", "*.model", "*.txt", "*.jinja", *(["*.safetensors"] if weights else [])]
    try:
        here = snapshot_download(name, local_files_only=True, allow_patterns=wanted, **options)
        if not weights or _whole(Path(here)):
            return Source(here, {})
    except (LocalEntryNotFoundError, FileNotFoundError):
        pass
    except ValueError as error:
        raise refuse(f"{name!r} is no Hugging Face id: {str(error).splitlines()[0]}") from None
    if constants.HF_HUB_OFFLINE or not _reachable(constants.ENDPOINT):
        raise refuse(
            f"{name} is not whole in the local Hugging Face cache and {constants.ENDPOINT} cannot "
            "be reached from here; check the spelling, connect once, or give a local folder"
        )
    try:
        here = snapshot_download(name, allow_patterns=wanted, **options)
    except Exception as error:
        raise refuse(
            f"{name} could not be fetched from {constants.ENDPOINT}: {_first_line(error)}"
        ) from None
    if weights and not _whole(Path(here)):
        raise refuse(
            f"{name} has no model.safetensors, or not all of its parts came; only safetensors are "
            "fetched, and a download that broke off goes on when it is asked for again"
        )
    return Source(here, {})


def _whole(folder: Path) -> bool:
    """Whether all weights are there: one file, or every part that the index names."""
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return (folder / "model.safetensors").is_file()
    try:
        parts = set(json.loads(index.read_text())["weight_map"].values())
        return all((folder / part).is_file() for part in parts)
    except (ValueError, LookupError, TypeError, AttributeError):
        return True  # what is wrong with the index, loading tells


def _reachable(endpoint: str, seconds: float = 3.0) -> bool:
    """Whether anything answers there, by the scheme, port and proxies that a fetch would take."""
    from huggingface_hub.utils import get_session

    try:
        get_session().head(endpoint, timeout=seconds)
    except Exception:
        return False
    return True


def load_tokenizer(model: ModelSpec):
    """The model's own fast tokenizer, kept until the model's files change."""
    return _tokenizer(model, fingerprint(model.id, model.revision))


@functools.lru_cache(maxsize=8)
def _tokenizer(model: ModelSpec, files: str):
    if found := shelf.describe(model.id):
        return vocabulary.tokenizer(found.config.fillers, found.config.symbols)
    from transformers import AutoTokenizer

    where, options = locate(model)
    try:
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False, **options)
    except Exception as error:
        raise refuse(f"the tokenizer of {model.id} does not load: {_first_line(error)}") from None
    if not tokenizer.is_fast:
        raise refuse(
            f"{model.id} has no fast tokenizer, which is needed to place tokens in the text"
        )
    return tokenizer


def load_config(model: ModelSpec):
    from transformers import AutoConfig

    where, options = locate(model)
    try:
        config = AutoConfig.from_pretrained(where, trust_remote_code=False, **options)
    except Exception as error:
        raise refuse(f"config.json of {model.id} does not load: {_first_line(error)}") from None
    return config.get_text_config(decoder=True)


def facts(model: ModelSpec) -> Facts:
    """Sizes read from the config alone; refuses what the config tells cannot be measured."""
    name = model.id.strip()
    if model.revision and (name in catalog.CATALOG or shelf.find(name) or _path(name)):
        told = f"{name} is no Hugging Face model and has one version only; leave revision empty"
        raise SpecError(FieldError("model.revision", told))
    return _facts(model, fingerprint(model.id, model.revision))


@functools.lru_cache(maxsize=8)
def _facts(model: ModelSpec, files: str) -> Facts:
    if found := shelf.describe(model.id):
        if not vocabulary.fits(found.config):
            raise refuse(f"{model.id} counts more fillers or symbols than there are words for")
        return controlled_facts(found.config, model.dtype)
    config = load_config(model)
    for name, most in SIZES.items():
        value = getattr(config, name, None)
        if not value:
            raise refuse(
                f"{model.id} ({config.model_type}) gives no {name}: not a decoder of a known kind"
            )
        if type(value) is not int or not 1 <= value <= most:
            raise refuse(
                f"config.json of {model.id} gives {shown(value)} as {name}: a whole number from 1 "
                f"to {most:,} is needed"
            )
    try:
        known = facts_of(config, model.dtype)
        told = REFUSED.get(config.model_type) or unreadable(config)
    except (TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise refuse(f"config.json of {model.id} makes no sense: {_first_line(error)}") from None
    if known.positions < 1:
        raise refuse(f"config.json of {model.id} allows {known.positions} positions")
    if told:
        raise refuse(f"{model.id} cannot be measured: {told}")
    return known


@dataclass(frozen=True)
class Loaded:
    """A model that passed the self-check, ready to be read with a memory."""

    spec: ModelSpec
    model: Any
    tokenizer: Any
    facts: Facts
    check: dict[str, float]

    @property
    def own_memory(self) -> bool:
        """Whether the weights bring their memory along, so that nothing is hooked."""
        return self.facts.architecture == CONTROLLED

    def new_cache(self) -> Any:
        """An empty cache for decode."""
        if self.own_memory:
            from engine.models.controlled.model import State

            return State()
        from transformers import DynamicCache

        return DynamicCache(config=self.model.config)

    def provenance(self) -> dict[str, Any]:
        return {
            "model": self.spec.id,
            "revision": self.spec.revision
            or getattr(self.model.config, "_commit_hash", None)
            or "local",
            "weights": weight_hash(self.model),
            "tokenizer": tokenizer_hash(self.tokenizer),
            "dtype": self.spec.dtype,
            "device": str(self.model.device),
            "self_check": self.check,
        }


def load_model(model: ModelSpec) -> Loaded:
    """Weights on their device with our attention registered, self-checked; else SpecError."""
    if path := shelf.find(model.id):
        return _load_controlled(model, path)
    import torch
    from transformers import AutoModelForCausalLM

    from engine.models.check import self_check

    known, tokenizer = facts(model), load_tokenizer(model)
    device = _device(model.device)
    where, options = locate(model, weights=True)
    try:
        net, report = AutoModelForCausalLM.from_pretrained(
            where,
            output_loading_info=True,
            dtype=getattr(torch, model.dtype),
            trust_remote_code=False,
            **({} if options else {"use_safetensors": True}),
            **options,
        )
    except Exception as error:
        told = _first_line(error)
        if "ignore_mismatched_sizes" in told:
            told = "its weights have other shapes than its config.json says"
        raise refuse(f"{model.id} does not load: {told}") from None
    if missing := sorted(report.get("missing_keys") or ()):
        raise refuse(
            f"{model.id} lacks {len(missing)} of the weights that its config.json asks for "
            f"({missing[0]}): they would be random"
        )
    net = net.eval().requires_grad_(False).to(device)
    check = self_check(net, model.id)
    return Loaded(model, net, tokenizer, replace(known, parameters=net.num_parameters()), check)


def _load_controlled(model: ModelSpec, path: Path) -> Loaded:
    net = checkpoint.load_model(path, model.dtype).to(_device(model.device))
    known = replace(facts(model), parameters=net.num_parameters())
    return Loaded(model, net, load_tokenizer(model), known, {})


def check_device(model: ModelSpec) -> None:
    """SpecError unless this machine has the device that the spec names."""
    _device(model.device)


def _device(name: str) -> str:
    import torch

    kind = name.split(":")[0]
    ready = {
        "cpu": True,
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
    }
    if not ready[kind]:
        here = ", ".join(k for k, ok in ready.items() if ok)
        raise SpecError(
            FieldError("model.device", f"{name} is not available here; available: {here}")
        )
    if kind == "cuda" and ":" in name and int(name.split(":")[1]) >= torch.cuda.device_count():
        raise SpecError(
            FieldError(
                "model.device", f"{name} does not exist; {torch.cuda.device_count()} GPUs are here"
            )
        )
    return name


def weight_hash(model: Any) -> str:
    """Hash of names, shapes and a strided sample of every tensor: tells two checkpoints apart in
    milliseconds.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in sorted(model.state_dict().items()):
        flat = tensor.detach().flatten()
        sample = flat[:: max(1, flat.numel() // 4096)].float().cpu().numpy()
        digest.update(f"{name}{tuple(tensor.shape)}".encode() + sample.tobytes())
    return digest.hexdigest()


def tokenizer_hash(tokenizer: Any) -> str:
    text = tokenizer.backend_tokenizer.to_str() + str(tokenizer.chat_template)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _first_line(error: Exception) -> str:
    """What a library says, in one line; a heading with a colon takes the next line along."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    text = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
    return (text if len(text) > 20 else f"{type(error).__name__}: {text}")[:300]
