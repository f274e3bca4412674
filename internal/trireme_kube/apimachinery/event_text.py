"""Text of events, equal to kube-scheduler's: names, the limit of a note, and Sprintf without arguments.

Pure string functions.
Source: client-go tools/record/util (names), pkg/scheduler (the limit), Go's fmt.Sprintf.
"""

import uuid

# A name of an API object is a DNS subdomain of at most 253 bytes.
MAX_NAME_BYTES = 253
MAX_NOTE_BYTES = 1024
# For a condition's message. The API limits only whole objects, but conditions are written many at a time.
MAX_MESSAGE_BYTES = 64 << 10
_SUFFIX = " ..."


def event_name(object_name: str, nanoseconds: int) -> str:
    """Return `<object>.<hex nanoseconds>`, or a random name if that is too long."""
    name = f"{object_name}.{nanoseconds:x}"
    return name if len(name) <= MAX_NAME_BYTES else str(uuid.uuid4())


def cut_to_bytes(note: str, most: int = MAX_NOTE_BYTES) -> str:
    """Cut the note to a number of bytes, by default the API's limit; a cut note ends in ` ...`."""
    encoded = note.encode("utf-8", "surrogatepass")
    if len(encoded) <= most:
        return note
    return encoded[: most - len(_SUFFIX)].decode("utf-8", "replace") + _SUFFIX


def format_without_arguments(text: str) -> str:
    """Format as Go's fmt.Sprintf does without arguments: `%s` becomes `%!s(MISSING)`.

    kube-scheduler passes FailedScheduling messages through it, and people and tests match the result.
    """
    if "%" not in text:
        return text
    out: list[str] = []
    at = 0
    while (percent := text.find("%", at)) >= 0:
        out.append(text[at:percent])
        at, piece = _format_directive(text, percent + 1)
        out.append(piece)
    out.append(text[at:])
    return "".join(out)


def _format_directive(text: str, at: int) -> tuple[int, str]:
    """Format the directive whose `%` is just before `at`; return the position after it, and the output."""
    out = ""
    while at < len(text) and text[at] in "+-# 0":
        at += 1
    at, bad_index = _parse_argument_index(text, at, False)
    if at < len(text) and text[at] == "*":
        at, out = at + 1, out + "%!(BADWIDTH)"
    else:
        at = _end_of_number(text, at)
    if at < len(text) and text[at] == ".":
        at, bad_index = _parse_argument_index(text, at + 1, bad_index)
        if at < len(text) and text[at] == "*":
            at, out = at + 1, out + "%!(BADPREC)"
        else:
            at = _end_of_number(text, at)
    at, bad_index = _parse_argument_index(text, at, bad_index)
    if at >= len(text):
        return at, out + "%!(NOVERB)"
    verb = text[at]
    if verb == "%":
        return at + 1, out + "%"
    return at + 1, f"{out}%!{verb}({'BADINDEX' if bad_index else 'MISSING'})"


def _parse_argument_index(text: str, at: int, bad: bool) -> tuple[int, bool]:
    """Skip an argument index such as `[1]`; return the position after it, and whether the directive is bad."""
    # There are no arguments, so every index is bad; without a closing bracket only the bracket is consumed.
    if at < len(text) and text[at] == "[":
        end = text.find("]", at) if len(text) - at >= 3 else -1
        return (end + 1 if end >= 0 else at + 1), True
    return at, bad


def _end_of_number(text: str, at: int) -> int:
    """Return the position after the digits, if any."""
    while at < len(text) and text[at] in "0123456789":
        at += 1
    return at
