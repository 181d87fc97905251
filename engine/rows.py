"""The columns that a worker sends and the store keeps, declared once.

One row per measured fact.  Aggregates are always recomputed from rows.
"""

import pyarrow as pa

ROLES = ("template", "text", "filler", "record", "target", "query", "pad", "answer")

# One row per predicted token of a copy; position t is predicted from tokens < t, so t starts at 1.
TOKENS = pa.schema(
    [
        ("sample", pa.int32()),
        ("shift", pa.int32()),  # r: fillers in front of the target, or the grid's origin
        ("residue", pa.int32()),  # (target position - grid origin) mod R
        ("position", pa.int32()),
        ("token_id", pa.int32()),
        ("text", pa.string()),
        ("role", pa.string()),
        ("logprob", pa.float32()),  # natural log of the probability of this token
        ("rank", pa.int32()),  # 0 = the model's first choice
        ("entropy", pa.float32()),  # nats
        ("top_ids", pa.list_(pa.int32())),  # the k likeliest tokens, best first
        ("top_logprobs", pa.list_(pa.float32())),
    ]
)

# One row per copy (and per compressed layer in a layer scan; layer = -1 elsewhere).
ANSWERS = pa.schema(
    [
        ("sample", pa.int32()),
        ("shift", pa.int32()),
        ("residue", pa.int32()),
        ("layer", pa.int32()),
        ("length", pa.int32()),  # prompt tokens of the copy, answer excluded
        ("target_position", pa.int32()),  # first token of the target
        ("query_position", pa.int32()),  # the prompt's last token, which predicts the answer
        ("origin", pa.int32()),
        ("correct", pa.bool_()),  # every answer token is the first choice
        ("logprob", pa.float64()),  # joint: sum over answer tokens
        ("token_logprobs", pa.list_(pa.float64())),
        ("token_ranks", pa.list_(pa.int32())),
        ("token_residues", pa.list_(pa.int32())),  # of each answer token's own source; see Copy
        (
            "rival_logprobs",
            pa.list_(pa.float64()),
        ),  # at the first answer position, in the spec's order
    ]
)
