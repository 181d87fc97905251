"""Training of one controlled model: step-based, resumable, the same bits on one CPU thread.

Knows one model.  Knows nothing of families, processes or pages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.models.controlled import checkpoint
from engine.models.controlled.config import Config, Recipe
from engine.models.controlled.lessons import lesson
from engine.models.controlled.model import Controlled

EVERY = 50  # steps between two told points of the learning curve
SAVED = 250  # steps between two checkpoints
RECENT = 100  # steps whose mean is the training accuracy told at the end
RECENT_OF = ("losses", "hits")

Tell = Callable[[dict], None]


class Stopped(Exception):
    """Told to end; the checkpoint of `step` is written."""

    def __init__(self, step: int):
        super().__init__(f"stopped at step {step}")
        self.step = step


def train(
    config: Config,
    recipe: Recipe,
    folder: Path,
    tell: Tell = lambda point: None,
    stop: Callable[[], bool] = lambda: False,
    device: str = "cpu",
) -> tuple[Controlled, dict[str, Any]]:
    """The model and what its training gave: steps, accuracy, curve, seconds of processor time.

    Goes on from `folder`'s checkpoint if it is of the same config and recipe.  Raises Stopped when
    `stop()` turns true, after saving.
    """
    made = Trainer(config, recipe, device)
    path = folder / "resume.safetensors"
    made.resume(path)
    while made.step < recipe.steps:
        made.advance()
        done = made.step == recipe.steps
        if made.step % EVERY == 0 or done:
            tell(made.point())
        ended = stop()
        if made.step % SAVED == 0 or ended or done:
            made.save(path)
        if ended and not done:
            raise Stopped(made.step)
    return made.model.eval(), made.summary()


class Trainer:
    """Model, optimiser and learning curve at one step."""

    def __init__(self, config: Config, recipe: Recipe, device: str = "cpu"):
        torch.manual_seed(recipe.seed)
        self.config, self.recipe, self.device = config, recipe, device
        self.model = Controlled(config).to(device)
        kinds: tuple[list, list] = ([], [])
        for name, parameter in self.model.named_parameters():
            kinds[parameter.dim() < 2 or name.endswith(".bias")].append(parameter)
        groups = [
            {"params": kinds[0], "weight_decay": recipe.decay},
            {"params": kinds[1], "weight_decay": 0.0},
        ]
        self.optimiser = torch.optim.AdamW(groups, lr=recipe.rate, betas=(0.9, 0.98), fused=True)
        self.step, self.seconds = 0, 0.0
        self.losses: list[float] = []
        self.hits: list[float] = []
        self.curve: list[list[float]] = []  # step, loss, accuracy: means since the last point

    def rate(self) -> float:
        """Warm-up, constant for the first half, then linear to a twentieth."""
        recipe, half = self.recipe, self.recipe.steps / 2
        warm = min(1.0, (self.step + 1) / recipe.warmup)
        return recipe.rate * warm * (1 - 0.95 * max(0.0, self.step - half) / half)

    def advance(self) -> None:
        """One step."""
        began = time.process_time()
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate()
        made = lesson(self.config, self.recipe, self.step)
        ids = torch.from_numpy(made.ids).to(self.device)
        gates: list | None = [] if self.recipe.coverage else None
        logits = self.model(ids, queries=made.queries, gates=gates).logits
        gold = ids[:, [at + 1 for at in made.queries]]
        loss = F.cross_entropy(logits.flatten(0, 1), gold.flatten())
        self.losses.append(float(loss.detach()))
        if gates is not None:
            loss = loss + self.recipe.coverage * uncovered(gates)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        self.hits.append(float((logits.argmax(-1) == gold).float().mean()))
        self.step += 1
        self.seconds += time.process_time() - began
        if self.step % EVERY == 0 or self.step == self.recipe.steps:
            last = slice(-min(EVERY, len(self.losses)), None)
            self.curve.append([self.step, _mean(self.losses[last]), _mean(self.hits[last])])

    def point(self) -> dict:
        step, loss, accuracy = self.curve[-1]
        return {"step": step, "loss": loss, "accuracy": accuracy, "cpu_seconds": self.seconds}

    def summary(self) -> dict[str, Any]:
        recent = [accuracy for _, _, accuracy in self.curve[-max(1, RECENT // EVERY) :]]
        return {
            "steps": self.step,
            "accuracy": round(_mean(recent), 4),
            "cpu_seconds": round(self.seconds, 1),
            "curve": self.curve,
        }

    def save(self, path: Path) -> None:
        """Weights, moments and curve; written whole or not at all."""
        tensors = {f"model.{n}": p.detach() for n, p in self.model.named_parameters()}
        for name, parameter in self.model.named_parameters():
            state = self.optimiser.state[parameter]
            tensors |= {f"{part}.{name}": state[part] for part in ("exp_avg", "exp_avg_sq")}
        since = self.step % EVERY  # steps that no point of the curve has yet
        progress = {"step": self.step, "seconds": self.seconds, "curve": self.curve}
        progress |= {name: getattr(self, name)[-since:] if since else [] for name in RECENT_OF}
        checkpoint.write(path, tensors, self.config, self.recipe, progress)

    def resume(self, path: Path) -> None:
        """Take over a checkpoint of the same training; another one's is left alone."""
        if not path.is_file():
            return
        found = checkpoint.read(path)
        if (found.config, found.recipe) != (self.config, self.recipe):
            return
        self.step, self.seconds = int(found.notes["step"]), float(found.notes["seconds"])
        self.curve = found.notes["curve"]
        self.losses, self.hits = (list(found.notes[name]) for name in RECENT_OF)
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(found.tensors[f"model.{name}"])
                moments = {
                    part: found.tensors[f"{part}.{name}"].to(self.device)
                    for part in ("exp_avg", "exp_avg_sq")
                }
                step = torch.tensor(float(self.step), device=self.device)
                self.optimiser.state[parameter] = {"step": step, **moments}


def uncovered(gates: list) -> Tensor:
    """KL(gate averaged over windows, samples, channels and a layer's heads ‖ uniform), summed over
    layers and branches; gates (B, E, W, H, 1 or D).
    """
    total = torch.zeros(())
    for layer in gates:
        for weight in layer:
            mean = weight.mean((0, 1, 3, 4))
            total = total.to(mean.device) + (mean * (mean * len(mean)).clamp_min(1e-9).log()).sum()
    return total


def one_thread() -> None:
    """A model this small runs fastest on one thread, and with the same bits everywhere."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
