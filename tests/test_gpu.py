"""On a GPU the same rows come out as on the CPU, within the rounding of float32."""

import numpy as np
import pytest
import torch
from decoders import READ, make
from test_sweep import Letters, copies_of, spec

from engine.models.check import self_check
from engine.models.facts import facts_of
from engine.models.loader import Loaded
from engine.run.sweep import sweep
from engine.specs import ModelSpec

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here"),
]


@pytest.mark.parametrize("name", ["llama", "qwen3", "gemma3"])
@pytest.mark.parametrize("protocol", ["outer", "grid_origin", "lengthen"])
def test_rows_on_a_gpu_equal_the_cpus(name, protocol):
    found = {}
    for device in ("cpu", "cuda"):
        model = make(READ[name], torch.float64).to(device)
        check = self_check(model, name)
        loaded = Loaded(
            ModelSpec(dtype="float64", device=device),
            model,
            Letters(),
            facts_of(model.config),
            check,
        )
        batches = sweep(spec(modulus=8), loaded, copies_of(protocol))
        found[device] = [p for b in batches for p in b.answers.column("logprob").to_pylist()]
    np.testing.assert_allclose(found["cuda"], found["cpu"], atol=1e-5)
