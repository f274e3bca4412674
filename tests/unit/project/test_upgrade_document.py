"""docs/upgrade.md: each statement about what is refused has a test."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[3]
TESTS = (
    (
        "they may be one minor release apart",
        "contract/test_release_skew.py",
        "a_frontend_of_a_distant_release_is_refused",
    ),
    ("of bind `configuration: …`", "contract/test_bind_service.py", "a_frontend_of_a_distant_release_is_refused"),
    ("no filter plugin", "unit/registry/test_filter_profiles.py", "a_plugin_that_this_release_lacks_is_refused"),
    (
        "the frontend starts a phase of its own",
        "e2e/test_e2e_scheduling.py",
        "the_frontend_starts_fallbacks_for_unavailable_phases",
    ),
    ("the frontend sends it", "contract/test_bind_service.py", "configuration_changes_with_its_hash"),
    (
        "strict decoding error: unknown field",
        "unit/config/test_trireme_configuration.py",
        "a_value_of_the_wrong_type_is_named_with_its_field",
    ),
    (
        "is not known to this scheduler, which has",
        "contract/test_plugin_handshake.py",
        "a_plugin_from_a_newer_contract_is_rejected_by_the_name_of_the_feature",
    ),
    ("is not known here; allowed", "contract/test_plugin_handshake.py", "a_failed_handshake_names_plugin_and_address"),
    (
        "which is not among those that it has",
        "contract/test_released_plugins.py",
        "a_released_plugin_is_not_taken_where_a_profile_has_it_judge_groups",
    ),
    (
        "the caller does not know required-features",
        "contract/test_plugin_handshake.py",
        "a_scheduler_without_the_feature_is_refused_and_told_why",
    ),
    ("it has format version 2", "unit/recording/test_segments.py", "what_cannot_be_read_is_named"),
    (
        "a leader of epoch 9000 has been seen",
        "unit/rpc/test_fencing.py",
        "a_stale_epoch_error_explains_restored_backups",
    ),
)


def _rows() -> list[str]:
    table = (ROOT / "docs/upgrade.md").read_text().partition("## What is refused")[2].partition("\n## ")[0]
    return [line for line in table.splitlines() if line.startswith(("| a", "| no"))]


@pytest.mark.parametrize(("words", "file", "name"), TESTS)
def test_a_statement_has_its_test(words: str, file: str, name: str) -> None:
    """Administrators look for the messages that they see; one that has changed is not found."""
    assert any(words in row for row in _rows())
    assert f"def test_{name}(" in (ROOT / "tests" / file).read_text()


def test_every_statement_is_listed_here() -> None:
    assert [row for row in _rows() if not any(words in row for words, _, _ in TESTS)] == []
