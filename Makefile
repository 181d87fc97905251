# Each target does its own set-up on a fresh machine.
PYTHON ?= python3
BIN := .venv/bin
# What is imported is compiled once and kept; the other 15 000 sources never are.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test setup model lint bench presets benchmarks family clean

run: model
	$(BIN)/phasescope dash

test: model
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || echo "browser tests will be skipped: no chromium on PATH (Debian: apt-get install chromium)"
	OMP_NUM_THREADS=1 PHASESCOPE_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder

setup: .venv/ready

# torch first and pinned, so that a CPU build of that version is taken where pip finds one (README).
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e '.[dev]'
	touch $@

model: setup
	$(BIN)/phasescope pull smollm2-135m

lint: setup
	$(BIN)/ruff format --check . && $(BIN)/ruff check .

bench: model
	$(BIN)/phasescope bench

# Run every preset again and store its result for the gallery; after any change of the numbers.
# A result whose control is a preset too goes without it.
presets: model
	$(BIN)/python -m engine.presets files | while read preset alone; do \
	  $(BIN)/phasescope run preset:$$preset --json >/dev/null </dev/null && \
	  $(BIN)/phasescope export preset:$$preset $$alone --to data/presets/$$preset.zip </dev/null || exit 1; \
	done

benchmarks: setup
	$(BIN)/python -m engine.presets family | while read preset alone; do \
	  $(BIN)/phasescope run preset:$$preset --json >/dev/null </dev/null && \
	  $(BIN)/phasescope export preset:$$preset $$alone --to data/presets/$$preset.zip </dev/null || exit 1; \
	done

# Train the shipped models again (about 150 CPU-minutes) and write their manifest.
family: setup
	$(BIN)/phasescope train --family --to data/models
	$(BIN)/python -m engine.models.controlled.manifest

clean:
	rm -rf .venv build *.egg-info artifacts .pytest_cache .ruff_cache .hypothesis
