"""What a fresh form holds: a prompt that can be run and edited, rather than an empty box."""

PROMPT = (
    "Read the notes and answer the question.\n\n"
    "Notes:{{pad}} The access code for AX31 is {{target}}482915{{/target}}. The corridor on the "
    "second floor is cleaned every morning before the staff arrive. Parcels are kept at the front "
    "desk until the end of the day.\n\n"
    "{{question}}Question: What is the access code for AX31?\n"
    "{{reply}}Answer: The access code for AX31 is "
)
TASKS = {"custom": {"text": PROMPT, "answer": "482915", "rivals": ["1"]}}
SAMPLES = {"custom": 1}  # one prompt of one's own is one sample
