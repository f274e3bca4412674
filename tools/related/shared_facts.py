"""Which files state what a file states: they have words or phrases in common with it that few other files have.

Tests: tools/related/test_related_files.py.
"""

import collections
import itertools
import math
import re
from collections.abc import Iterator, Mapping

from tools.related.repository import WORD, Repository, one_spelling

#: A word in more files than this tells nothing.
_MANY = 25
#: Five words in a line of prose, from any word on.
_PHRASE = re.compile(r"\b(?=([A-Za-z]\w*(?:[,:;]? [a-z][\w-]*){4}\b))")
#: Words of prose tell less than names.
_PROSE = 0.15


def sharing(repository: Repository, path: str, text: str) -> dict[str, dict[str, float]]:
    """The files that share rare words or phrases with a text of the file `path`, with the weight of each.

    The weight of a name is 1 if it is in one other file, and 1/√n if in n: what many state is a fact, or a common word.
    """
    out: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for fact, (files, weight) in itertools.chain(_words(repository, text), _phrases(repository, text)):
        others = files - {path}
        if others and len(others) <= _MANY:
            for other in others:
                out[other][fact] = weight / math.sqrt(len(others))
    return out


def score(facts: Mapping[str, float]) -> float:
    """How much facts that two files share tell: the more of them, and the rarer."""
    return sum(facts.values())


def _words(repository: Repository, text: str) -> Iterator[tuple[str, tuple[frozenset[str], float]]]:
    found = {one_spelling(each): each for each in WORD.findall(text)}
    for spelling, word in found.items():
        is_name = re.search(r"[_\d-]|[a-z][A-Z]|^[A-Z]{3}", word) or re.search(rf"[\"'`./]{re.escape(word)}\b", text)
        yield word, (repository.files_by_word.get(spelling, frozenset()), 1 if is_name else _PROSE)


def _phrases(repository: Repository, text: str) -> Iterator[tuple[str, tuple[frozenset[str], float]]]:
    """Phrases of prose that few files have, however their lines are broken."""
    for phrase in dict.fromkeys(_PHRASE.findall(text)):
        words = [each for each in map(one_spelling, WORD.findall(phrase)) if each in repository.files_by_word]
        candidates = (
            frozenset.intersection(*(repository.files_by_word[each] for each in words)) if words else frozenset()
        )
        if 2 <= len(candidates) <= _MANY:
            pattern = re.compile(re.sub(" ", r"[^\\w.]+", re.escape(phrase).replace("\\ ", " ")))
            yield phrase, (frozenset(each for each in candidates if pattern.search(repository.texts[each])), 0.3)
