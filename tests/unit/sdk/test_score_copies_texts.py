"""The SDKs tell authors the same of a score that uses the cluster, which does not have the copies of the pod."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[3]
SOURCES = {
    "python": "internal/trireme/sdk/scoring.py",
    "go": "sdk/go/scoring.go",
    "java": "sdk/java/src/main/java/dev/trireme/sdk/ScoreHandlers.java",
    "rust": "sdk/rust/src/services/scoring.rs",
    "typescript": "sdk/typescript/src/services/score_service.ts",
}
# What is used, and what the field is called, differ by language.
TEXT = re.compile(
    r"ScoreCopies: \S+ (of the handle )?(used|called|got|was called) .*does not have the copies of the pod, "
    r"so pods are placed one at a time: set \S+core_?[cC]opies to [Tt]rue "
    r"if \S*( score|Score) counts no pods of (the |call\.)cluster, or to [Ff]alse if it does"
)


@pytest.mark.parametrize("path", SOURCES.values(), ids=SOURCES)
def test_the_text_about_a_score_that_uses_the_cluster(path: str) -> None:
    source = (ROOT / path).read_text()
    joined = re.sub(r'["`]?\s*[+\\]?\s*\n\s*[+]?\s*f?["`]?', " ", source)
    assert TEXT.search(re.sub(r"\s+", " ", joined))
