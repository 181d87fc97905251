"""One way from a text with marked places to a LogicalSample on the model's own tokens (SCIENCE §2).

The text is tokenised once; every place is a character offset that must fall between two tokens.
Nothing is built from pieces tokenised apart, so what the model reads is what the user wrote.
Knows tokenizers and chat templates.  Knows nothing of tasks, models, memories or padding.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from engine.copies import LogicalSample, Slot
from engine.registry import FieldError, SpecError
from engine.tasks.filler import CANDIDATES, choose_filler, verify_filler


@dataclass(frozen=True)
class Marked:
    """A prompt as plain text and the places that matter, in characters of `text`."""

    text: str
    target: tuple[int, int]
    answer: str
    slots: tuple[tuple[str, int], ...] = ()  # (name, offset)
    question: int | None = None  # start of the query; None: the context's end is not told apart
    rivals: tuple[str, ...] = ()
    spans: tuple[tuple[int, int, str], ...] = ()  # (start, stop, role); "text" elsewhere
    reply: int | None = None  # with a chat template: the model's own turn begins with text[reply:]


@dataclass(frozen=True)
class Chat:
    """Whether the model's chat template is put around the text, and with which system message."""

    on: bool = False
    system: str = ""


class Encoded(NamedTuple):
    """Token ids with the characters that each covers; added specials at the front cover none."""

    ids: list[int]
    starts: list[int]
    ends: list[int]

    def boundary(self, offset: int) -> int | None:
        """The index of the token that begins at a character offset; None inside a token."""
        reach = 0
        for i, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            if start == offset and reach <= offset and end > start:
                return i
            reach = max(reach, end)
        return len(self.ids) if offset >= reach else None

    def holding(self, offset: int) -> int:
        """The index of the first token that covers the character at an offset."""
        return next(
            i
            for i, (a, b) in enumerate(zip(self.starts, self.ends, strict=True))
            if a <= offset < b
        )


class Rendered(NamedTuple):
    """The whole text that is tokenised, and where the user's characters lie in it."""

    text: str
    own: tuple[int, int]  # [start, stop) of the user's content
    reply: int  # where text[marked.reply:] begins
    chat: bool
    cut: int  # white space that the template dropped in front of the content
    marked_reply: int | None

    def at(self, offset: int) -> int:
        """A character offset of Marked.text in the whole text."""
        if self.marked_reply is not None and offset > self.marked_reply:
            return self.reply + offset - self.marked_reply
        return min(max(self.own[0] + offset - self.cut, self.own[0]), self.own[1])


def encode(tokenizer: Any, text: str, chat: bool) -> Encoded:
    """Tokenise once, with the tokenizer's own specials in front unless a template brought them.

    A specials token appended behind (some tokenizers close every text) is dropped: the answer
    follows the prompt.  White space that a tokenizer trims off its offsets counts as the following
    token's own.
    """
    out = tokenizer(
        text,
        add_special_tokens=not chat,
        return_offsets_mapping=True,
        return_special_tokens_mask=True,
        verbose=False,
    )
    ids, spans, added = out["input_ids"], out["offset_mapping"], out["special_tokens_mask"]
    empty = [mark and start == end for mark, (start, end) in zip(added, spans, strict=True)]
    stop = len(ids)
    while stop and empty[stop - 1] and not all(empty):
        stop -= 1
    starts, ends, reach = [], [], 0
    for i, (start, end) in enumerate(spans[:stop]):
        start = reach if empty[i] or start > reach else start
        if empty[i]:
            end = reach
        elif end <= start:  # a lone space may be trimmed away wholly
            end = max(start, spans[i + 1][0] if i + 1 < stop else len(text))
        starts.append(start)
        ends.append(end)
        reach = max(reach, end)
    return Encoded(list(ids[:stop]), starts, ends)


def piece(tokenizer: Any, token: int) -> str:
    """A token's raw text, spaces kept; a part of a character in the tokenizer's byte form."""
    form = tokenizer.convert_ids_to_tokens(int(token))
    form = "" if form is None else str(form)
    text = tokenizer.decode([int(token)], clean_up_tokenization_spaces=False)
    if "\ufffd" in text and "\ufffd" not in form:
        return form
    if form.startswith("\u2581"):  # sentencepiece decoders drop a leading space
        return form.replace("\u2581", " ")
    return text


def render(tokenizer: Any, marked: Marked, chat: Chat) -> Rendered:
    """The text as the model gets it: as it is, or as a user's turn in the model's own template."""
    text, cut = marked.text, marked.reply
    if not chat.on:
        end = len(text) if cut is None else cut
        return Rendered(text, (0, end), end, False, 0, cut)
    content, reply = (text, "") if cut is None else (text[:cut], text[cut:])
    before, after = _template(tokenizer, chat)
    whole = _apply(tokenizer, chat, content)
    if not (whole.startswith(before) and whole.endswith(after)):
        raise refusal(
            "task.chat", "the chat template rewrites itself around this text; set chat off"
        )
    kept = whole[len(before) : len(whole) - len(after)]
    lead = content.find(kept) if kept else 0
    if lead < 0 or content.strip() != kept.strip():
        raise refusal(
            "task.chat", "the chat template rewrites the text; set chat off, or simplify the text"
        )
    stop = len(before) + len(kept)
    return Rendered(whole + reply, (len(before), stop), len(whole), True, lead, cut)


def _template(tokenizer: Any, chat: Chat) -> tuple[str, str]:
    """What the template puts before and after the user's content."""
    mark = "phasescope-content"
    parts = _apply(tokenizer, chat, mark).split(mark)
    if len(parts) != 2:
        raise refusal(
            "task.chat", "the chat template does not hold the text exactly once; set chat off"
        )
    return parts[0], parts[1]


def _apply(tokenizer: Any, chat: Chat, content: str) -> str:
    if not getattr(tokenizer, "chat_template", None):
        raise refusal("task.chat", "this model has no chat template; set chat off")
    turns = [{"role": "system", "content": chat.system}] if chat.system else []
    turns.append({"role": "user", "content": content})
    try:
        # Some templates print today's date: fixed, so that a spec means the same tokens tomorrow.
        return tokenizer.apply_chat_template(
            turns, tokenize=False, add_generation_prompt=True, date_string="01 Jan 2026"
        )
    except Exception as error:  # a template may refuse roles with any exception of its own
        at = "task.system" if chat.system else "task.chat"
        raise refusal(at, f"the model's chat template refuses this conversation: {error}") from None


def build_sample(
    tokenizer: Any,
    marked: Marked,
    index: int,
    filler: str = "",
    chat: Chat | None = None,
    candidates: Sequence[str] = CANDIDATES,
) -> LogicalSample:
    """The sample of a marked text; an empty `filler` takes the first candidate that fits all slots.

    Raises SpecError at task.text, .answer, .rivals, .filler, .chat or .system.
    """
    chat = chat or Chat()
    if not marked.text.strip():
        raise refusal(
            "task.text", "is empty; write a prompt with a fact, a pad slot and a question"
        )
    whole = render(tokenizer, marked, chat)
    encoded = encode(tokenizer, whole.text, whole.chat)
    slots = tuple((name, whole.at(offset)) for name, offset in marked.slots)
    places = tuple(Slot(name, _place(tokenizer, whole, encoded, name, at)) for name, at in slots)
    start, stop = _target(tokenizer, whole, encoded, marked)
    answer = answer_tokens(tokenizer, whole.text, encoded, marked.answer, whole.chat)
    rivals = rival_tokens(tokenizer, whole, encoded, answer, marked)
    question = len(whole.text) if marked.question is None else whole.at(marked.question)
    context_end = max(encoded.boundary(question) or encoded.holding(question), stop)

    def retokenise(text: str) -> list[int]:
        return encode(tokenizer, text, whole.chat).ids

    spots = sorted({(at, place.at) for (_, at), place in zip(slots, places, strict=True)})
    if filler or not spots:
        token = verify_filler(retokenise, whole.text, encoded.ids, spots, filler, index == 0)
    else:
        token = choose_filler(retokenise, whole.text, encoded.ids, spots, index == 0, candidates)
    roles = _roles(whole, encoded, marked)
    roles[start:stop] = ["target"] * (stop - start)
    return LogicalSample(
        index=index,
        tokens=tuple(encoded.ids),
        roles=tuple(roles),
        target=(start, stop),
        answer=tuple(answer),
        rivals=tuple(rivals.values()),
        rival_texts=tuple(rivals),
        answer_text=marked.answer,
        slots=places,
        filler=token,
        context_end=min(context_end, len(encoded.ids)),
    )


def build_prompt(
    tokenizer: Any,
    marked: Marked,
    index: int,
    filler: str = "",
    chat: Chat | None = None,
    candidates: Sequence[str] = CANDIDATES,
) -> LogicalSample:
    """As build_sample, for a task's own text: the space before the answer stands where the
    tokenizer wants it, at the prompt's end or at the answer's start.
    """
    try:
        return build_sample(tokenizer, marked, index, filler, chat, candidates)
    except SpecError as error:
        if error.errors[0].field != "task.answer" or not marked.text.endswith(" "):
            raise
    spaced = replace(
        marked,
        text=marked.text[:-1],
        answer=" " + marked.answer,
        rivals=tuple(" " + rival for rival in marked.rivals),
        spans=tuple((a, min(b, len(marked.text) - 1), role) for a, b, role in marked.spans),
    )
    return build_sample(tokenizer, spaced, index, filler, chat, candidates)


def _place(tokenizer: Any, whole: Rendered, encoded: Encoded, name: str, offset: int) -> int:
    at = encoded.boundary(offset)
    if at is not None:
        return at
    inside = encoded.holding(offset)
    shown, where = piece(tokenizer, encoded.ids[inside]), _around(whole, encoded, inside)
    raise refusal("task.text", f"the {name} slot falls inside the token {shown!r}; put it {where}")


def _target(tokenizer: Any, whole: Rendered, encoded: Encoded, marked: Marked) -> tuple[int, int]:
    """Token span of the target.  A token's own leading space may stand outside the marks."""
    begin, end = (whole.at(offset) for offset in marked.target)
    while begin < end and whole.text[begin].isspace():
        begin += 1
    while end > begin and whole.text[end - 1].isspace():
        end -= 1
    if begin >= end:
        raise refusal(
            "task.text", "the target is empty; mark the characters of the fact that is asked"
        )
    first, last = encoded.holding(begin), encoded.boundary(end)
    outside = whole.text[encoded.starts[first] : begin]
    if encoded.boundary(encoded.starts[first]) != first or outside.strip():
        shown, where = piece(tokenizer, encoded.ids[first]), _around(whole, encoded, first)
        raise refusal(
            "task.text", f"the target begins inside the token {shown!r}; begin it {where}"
        )
    if last is None:
        inside = encoded.holding(end - 1)
        if whole.text[end : encoded.ends[inside]].strip():
            shown, where = piece(tokenizer, encoded.ids[inside]), _around(whole, encoded, inside)
            raise refusal(
                "task.text", f"the target ends inside the token {shown!r}; end it {where}"
            )
        last = inside + 1
    return first, last


def _around(whole: Rendered, encoded: Encoded, token: int) -> str:
    """The two nearest places between tokens, as the words on either side."""
    before = whole.text[max(encoded.starts[token] - 12, 0) : encoded.starts[token]]
    after = whole.text[encoded.ends[token] : encoded.ends[token] + 12]
    lower = f"right behind {before!r}" if before else "at the very start"
    upper = f"right before {after!r}" if after else "at the very end"
    return f"{lower} or {upper}"


def answer_tokens(
    tokenizer: Any, text: str, encoded: Encoded, answer: str, chat: bool
) -> list[int]:
    """The answer's ids in context: what follows the prompt's own when tokenised together."""
    if not answer:
        raise refusal("task.answer", "is missing; type what the model should continue with")
    ids = encode(tokenizer, text + answer, chat).ids
    if ids[: len(encoded.ids)] == encoded.ids and len(ids) > len(encoded.ids):
        return ids[len(encoded.ids) :]
    last = piece(tokenizer, encoded.ids[-1])
    if text[-1:].isspace() and not answer[:1].isspace():
        cure = "remove the white space at the end of the text and begin the answer with a space"
    elif answer[:1].isspace():
        cure = "move the space from the answer's start to the end of the text"
    else:
        cure = "end the text at a word's end and begin the answer with a space"
    raise refusal(
        "task.answer", f"the answer {answer!r} merges with the text's last token {last!r}; {cure}"
    )


def rival_tokens(
    tokenizer: Any, whole: Rendered, encoded: Encoded, answer: list[int], marked: Marked
) -> dict[str, int]:
    """text → first token of each rival in context; rivals with the same first token count once."""
    rivals: dict[str, int] = {}
    for text in marked.rivals:
        try:
            first = answer_tokens(tokenizer, whole.text, encoded, text, whole.chat)[0]
        except SpecError as error:
            raise refusal(
                "task.rivals", error.errors[0].message.replace("answer", "rival")
            ) from None
        if first == answer[0]:
            shown = piece(tokenizer, first)
            raise refusal(
                "task.rivals",
                f"the rival {text!r} begins with the same token as the answer {marked.answer!r}: "
                f"the single token {shown!r} begins both and cannot tell them apart; "
                "choose a rival that begins otherwise",
            )
        if first not in rivals.values():
            rivals[text] = first
    return rivals


def _roles(whole: Rendered, encoded: Encoded, marked: Marked) -> list[str]:
    """Each token's role, by its last character (a leading space is the next word's)."""
    spans = [(whole.at(a), whole.at(b), role) for a, b, role in marked.spans]
    roles = []
    for start, end in zip(encoded.starts, encoded.ends, strict=True):
        last = end - 1
        own = whole.own[0] <= last < whole.own[1] or last >= whole.reply
        role = "text" if own and end > start else "template"
        for a, b, name in spans:
            if role != "template" and a <= last < b:
                role = name
        roles.append(role)
    return roles


def join(parts: Iterable[tuple[str, str]]) -> tuple[str, dict[str, tuple[int, int]]]:
    """Text of (name, text) parts in a row, and each named part's [start, stop) in it."""
    text, places = "", {}
    for name, part in parts:
        places[name] = (len(text), len(text) + len(part))
        text += part
    return text, places


def refusal(field: str, message: str) -> SpecError:
    return SpecError(FieldError(field, message))
