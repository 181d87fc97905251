"""The columns of a decode run, declared once: what the worker sends and the store keeps.

Every row is of one arm (a method at a budget) and one sample.  One row per measured fact; means,
intervals and comparisons are always recomputed from rows.
"""

import pyarrow as pa

PLACE = [("arm", pa.int32()), ("sample", pa.int32())]

# One row per token behind the prompt; forced runs have the same tokens in every arm.
STEPS = pa.schema(
    [
        *PLACE,
        ("position", pa.int32()),
        ("token_id", pa.int32()),
        ("text", pa.string()),
        ("logprob", pa.float32()),  # natural log; null where the token was not scored
        ("rank", pa.int32()),  # 0 = the model's first choice; null with the logprob
        ("kept", pa.int32()),  # entries per KV head after this token and its event
        ("event", pa.bool_()),  # an event followed this token
    ]
)

# One row per question, asked on a fork of the cache behind everything that was read.
ANSWERS = pa.schema(
    [
        *PLACE,
        ("question", pa.int32()),
        ("mark", pa.string()),  # the span of the prompt that answers it
        ("correct", pa.bool_()),  # every answer token is the first choice
        ("logprob", pa.float64()),  # joint, natural log
        ("tokens", pa.int32()),  # of the answer
        ("retained", pa.float64()),  # share of the span still held, mean over layers and KV heads
    ]
)

# One row per event and marked span.
MARKS = pa.schema(
    [
        *PLACE,
        ("seen", pa.int32()),  # tokens read when the event ended
        ("mark", pa.string()),
        ("retained", pa.float64()),
    ]
)

# One row per batch, at its first sample.
COSTS = pa.schema(
    [
        *PLACE,
        ("rows", pa.int32()),  # samples that were decoded together
        ("prefill_seconds", pa.float64()),
        ("decode_seconds", pa.float64()),
        ("tokens", pa.int32()),  # decoded per row
        ("events", pa.int32()),
        ("event_ms", pa.list_(pa.float64())),  # behind the prompt
        ("step_ms", pa.list_(pa.float64())),  # of tokens read one by one, events apart
        ("observe_ms", pa.float64()),  # the method's own work beside those steps, all together
        ("resident_mean", pa.float64()),  # entries per KV head over the decoded steps
        ("resident_peak", pa.int32()),
        ("peak_bytes", pa.int64()),  # keys and values of one row
        ("mean_bytes", pa.int64()),
        ("state_bytes", pa.int64()),  # the method's own state, one row, mean over the decoded
        ("fps_ms", pa.float64()),  # choosing stored queries, over all decoded tokens
        ("state_peak", pa.int64()),  # at most, the prompt's reading included
        ("memory_peak", pa.int64()),  # bytes of the process, or of the GPU; null where unknown
    ]
)

# One row per text that was written: all of a free run, the full cache's of a forced one.
TEXTS = pa.schema([*PLACE, ("text", pa.string()), ("ended", pa.string())])

ENDS = ("stop", "cap")

TABLES = {
    "decode_steps": STEPS,
    "decode_answers": ANSWERS,
    "decode_marks": MARKS,
    "decode_costs": COSTS,
    "decode_texts": TEXTS,
}
# What tells two rows of a table apart, beside arm and sample.
WITHIN = {
    "decode_steps": ("position",),
    "decode_answers": ("question",),
    "decode_marks": ("seen", "mark"),
    "decode_costs": (),
    "decode_texts": (),
}
MAY_BE_NULL = {
    "decode_steps": ("logprob", "rank"),
    "decode_costs": ("fps_ms", "state_peak", "memory_peak"),  # not told by older versions
}
