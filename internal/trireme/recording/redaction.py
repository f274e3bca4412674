"""Replaces names and labels in a recording, each by the same text everywhere, so that it can be given to others.

A replacement says nothing of what it stands for but its place in the order: names are numbered in their order, since
plugins compare some by it. So all of them have to be known before the first is replaced: `Names` collects them in a
first pass, `Redaction` replaces them in a second one.

Also change: internal/trireme/plugins/node_label/args.py,
internal/trireme/config_convert/profile_conversion.py (arguments of NodeLabel).
Also change: docs/recording.md.
"""

import json
import re
from collections.abc import Callable, Container
from typing import Any

from google.protobuf import descriptor
from google.protobuf import message as protobuf

from trireme.recording import redaction_rules
from trireme.recording.redaction_rules import Content
from trireme.v1 import decision_pb2, recording_pb2

_PACKAGE = "trireme.v1."
_STRING, _BYTES = descriptor.FieldDescriptor.TYPE_STRING, descriptor.FieldDescriptor.TYPE_BYTES
# A word that may be a name, or a label's key with its domain.
_WORD = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9._/]*[A-Za-z0-9])?")
# What such a word is made of: letters and digits, and what joins them.
_PIECES = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9]+")
_QUOTED = re.compile(r'"[^"]*"')
# The key of a label or annotation in the path of a field.
_KEYS_IN_PATHS = re.compile(r"(?<=\[['\"])[^'\"]+(?=['\"]\])")
# The volume plugins that an annotation of a CSINode lists.
_PLUGINS = re.compile(r"kubernetes\.io/[a-z-]+(?:,kubernetes\.io/[a-z-]+)*")
# Names that the scheduler makes itself for claims of extended resources, of UIDs and numbers.
_MADE_NAME = re.compile(r"<extended-resources>[-0-9a-f]+|container-\d+-request-\d+")
# In the arguments of plugins, what stands under these names.
_ARGUMENT_KEYS = {
    **dict.fromkeys(("key", "topologyKey", "presentLabels", "absentLabels"), Content.LABEL_KEY),
    **dict.fromkeys(("presentLabelsPreference", "absentLabelsPreference"), Content.LABEL_KEY),
    "values": Content.LABEL_VALUE,
}
_KUBERNETES = ("kubernetes.io", "k8s.io")

# Returns the text to write for one of a content.
Change = Callable[[str, Content], str]


class Names:
    """The names of a recording, collected from its frames."""

    def __init__(self, in_tree: Container[str]) -> None:
        """`in_tree`: the plugins whose arguments are numbers, names of resources, and labels."""
        self.in_tree = in_tree
        self._found: set[str] = set()
        #: Names of resources and others that stay, which have a domain.
        self.kept: set[str] = set()

    def add(self, message: protobuf.Message) -> None:
        """Collect the names in a frame or a header, which stays as it is."""
        copy = type(message)()
        copy.CopyFrom(message)
        _leave_out_arguments(copy, self.in_tree)
        _change(copy, self._note)

    def replacements(self) -> dict[str, str]:
        """The replacement of each name."""
        width = len(str(len(self._found)))
        return {name: f"x{number:0{width}}" for number, name in enumerate(sorted(self._found))}

    def _note(self, text: str, content: Content) -> str:
        if content is Content.KEPT and "/" in text:
            self.kept.add(text)
        for part in _parts_of(text, content):
            if _is_kept(part, content):
                if "/" in part:
                    self.kept.add(part)
            else:
                self._found.add(part)
                # Texts may name a host without its domain.
                host = part.partition(".")[0]
                if content is Content.NAME and host and not _is_kept(host, content):
                    self._found.add(host)
        return text


class Redaction:
    """Replaces names in frames and headers."""

    def __init__(self, names: Names) -> None:
        self._replacements = names.replacements()
        self._kept = names.kept
        self._in_tree = names.in_tree

    def redact(self, message: protobuf.Message) -> None:
        """Replace the names in a frame or a header, in place; fields that this release does not know are left out.

        Objects come from the API server with fields that no plugin reads, such as the last applied configuration.
        """
        message.DiscardUnknownFields()
        _leave_out_arguments(message, self._in_tree)
        _change(message, self._replace)

    def _replace(self, text: str, content: Content) -> str:
        """The text with all names replaced."""
        if content is Content.TEXT:
            return _QUOTED.sub(lambda found: self._replace_words(found[0], quoted=True), self._replace_words(text))
        if content is Content.ANNOTATION_VALUE:
            kept = text in redaction_rules.COMMON or _PLUGINS.fullmatch(text)
            return self._replacements.get(text, text if kept else "")
        out, rest = [], text
        for part in _parts_of(text, content):
            before, _, rest = rest.partition(part)
            out += [before, part if _is_kept(part, content) else self._replacements[part]]
        return "".join([*out, rest]) if out else text

    def _replace_words(self, text: str, *, quoted: bool = False) -> str:
        """The text with the words replaced that are names; in quotes also those that are words of the scheduler."""

        def replacement(found: "re.Match[str]") -> str:
            word = found[0]
            if word in self._kept or (word in redaction_rules.WORDS and not quoted):
                return word
            return self._replace_names_in(word, quoted=quoted)

        return _WORD.sub(replacement, text)

    def _replace_names_in(self, word: str, *, quoted: bool) -> str:
        """The word with the names in it replaced, the longest first: a text joins names in any way.

        A pod with its namespace, a claim called by a pod and a volume, a value of two zones, a host and its port.
        """
        known = self._replacements.get(word)
        if known is not None:
            return known
        out, pieces, first = [], _PIECES.findall(word), 0
        # Behind a namespace, or before one, even a word of the scheduler is a name.
        quoted = quoted or "/" in word
        while first < len(pieces):
            for end in range(len(pieces), first, -1):
                text = "".join(pieces[first:end])
                known = self._replacements.get(text)
                if known is not None and (quoted or text not in redaction_rules.WORDS):
                    break
            else:
                known, end = pieces[first], first + 1
            out.append(known)
            first = end
        return "".join(out)


def _parts_of(text: str, content: Content) -> list[str]:
    """The parts of a field's text that are replaced by themselves, in their order; none in a text of words."""
    if content in (Content.TEXT, Content.KEPT, Content.ANNOTATION_VALUE):
        return []
    if content is Content.LABEL_KEY:
        return [text] if text else []
    if content is Content.CONDITION:
        return [text] if "/" in text else []
    if content is Content.FIELD_PATH:
        return _KEYS_IN_PATHS.findall(text)
    if content is Content.LABEL_VALUE:
        return [part for part in text.split("__") if part]
    if content is Content.IMAGE:
        repository, at, digest = text.partition("@")
        path, colon, tag = repository.rpartition(":")
        if not colon or "/" in tag:
            path, tag = repository, ""
        return [part for part in (path, tag, digest if at else "") if part]
    return [part for part in text.split("/") if part]


def _is_kept(part: str, content: Content) -> bool:
    """Whether the part stays: a number, a name that every cluster has, or a label of Kubernetes."""
    if part in redaction_rules.COMMON or part.isdecimal() or _MADE_NAME.fullmatch(part):
        return True
    if content not in (Content.LABEL_KEY, Content.CONDITION, Content.FIELD_PATH):
        return False
    domain, slash, _ = part.partition("/")
    return bool(slash) and any(domain == own or domain.endswith(f".{own}") for own in _KUBERNETES)


def _leave_out_arguments(message: protobuf.Message, in_tree: Container[str]) -> None:
    """Leave out the arguments of all other plugins, in place.

    Nobody but their author knows what is in them. Replays take the recorded answers of such a plugin.
    """
    if isinstance(message, recording_pb2.RecordingHeader):
        configuration = message.hello.configuration
    elif isinstance(message, recording_pb2.RecordedFrame):
        configuration = message.message.hello.configuration
    else:
        return
    for profile in configuration.profiles:
        for each in profile.plugin_args:
            if each.name not in in_tree:
                each.args_json = b"{}"
    for remote in configuration.remote_plugins:
        for configured in remote.configurations:
            configured.args_json = b"{}"


def _change(message: protobuf.Message, change: Change) -> None:
    """Change all texts of a message, in place."""
    name = message.DESCRIPTOR.full_name.removeprefix(_PACKAGE)
    for field, value in message.ListFields():
        if field.message_type is not None:
            if field.message_type.GetOptions().map_entry:
                _change_map(message, field, name, change)
            elif field.is_repeated:
                for each in value:
                    _change(each, change)
            else:
                _change(value, change)
        elif field.type in (_STRING, _BYTES):
            _change_text(message, field, redaction_rules.content_of(name, field.name), change)


def _change_text(message: protobuf.Message, field: Any, content: Content, change: Change) -> None:
    """Change a field of texts or bytes."""
    if content is Content.DROPPED:
        message.ClearField(field.name)
        return
    value = getattr(message, field.name)
    changed = [_changed(each, content, change) for each in (value if field.is_repeated else [value])]
    if field.is_repeated:
        value[:] = changed
    else:
        setattr(message, field.name, changed[0])


def _changed(value: Any, content: Content, change: Change) -> Any:
    """A text, decisions or arguments with all names changed. Raises: ValueError for those that cannot be decoded."""
    if content is Content.DECISIONS:
        try:
            decision = decision_pb2.Decision.FromString(value)
        except protobuf.DecodeError as error:
            raise ValueError("a decision cannot be decoded") from error
        decision.DiscardUnknownFields()
        if any(member.state for member in decision.claim_release.request.tried):
            decision.claim_release.without_state = True
        _change(decision, change)
        return decision.SerializeToString()
    if content is Content.ARGUMENTS:
        return json.dumps(_changed_arguments(json.loads(value or b"{}"), change)).encode()
    # Bytes that no rule lists.
    return b"" if isinstance(value, bytes) else change(value, content)


def _changed_arguments(value: Any, change: Change) -> Any:
    """The arguments of a plugin with labels changed."""
    if isinstance(value, list):
        return [_changed_arguments(each, change) for each in value]
    if not isinstance(value, dict):
        return value
    out: dict[str, Any] = {}
    for key, each in value.items():
        content = _ARGUMENT_KEYS.get(key)
        if content is not None and isinstance(each, str):
            out[key] = change(each, content)
        elif content is not None and isinstance(each, list):
            out[key] = [change(part, content) if isinstance(part, str) else part for part in each]
        elif key == "matchLabels" and isinstance(each, dict):
            out[key] = {
                change(label, Content.LABEL_KEY): change(text, Content.LABEL_VALUE) for label, text in each.items()
            }
        else:
            out[key] = _changed_arguments(each, change)
    return out


def _change_map(message: protobuf.Message, field: Any, name: str, change: Change) -> None:
    """Change keys and values of a map."""
    entry = field.message_type.name
    entries = getattr(message, field.name)
    of_key = redaction_rules.content_of(f"{name}.{entry}", "key")
    of_value = redaction_rules.content_of(f"{name}.{entry}", "value")
    plain = field.message_type.fields_by_name["value"]
    found = list(entries.items())
    if plain.message_type is not None:
        kept = []
        for key, value in found:
            copy = type(value)()
            copy.CopyFrom(value)
            _change(copy, change)
            kept.append((key, copy))
        entries.clear()
        for key, value in kept:
            entries[change(key, of_key)].CopyFrom(value)
        return
    entries.clear()
    for key, value in found:
        if plain.type == _STRING:
            own = of_value
            if own is Content.ANNOTATION_VALUE and not _is_kept(key, Content.LABEL_KEY):
                own = Content.NAME
            value = change(value, own)
        entries[change(key, of_key)] = value
