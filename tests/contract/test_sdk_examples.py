"""The SDKs' own tests, and those of the example plugins that are built from the SDKs' packages."""

import pytest

from tests.contract import sdk_examples

pytestmark = pytest.mark.timeout(600)


def test_the_typescript_sdk_passes_its_own_tests() -> None:
    """If this fails, what authors in TypeScript build on is wrong."""
    sdk_examples.run_typescript_sdk_tests()


@pytest.mark.parametrize("name", sdk_examples.TYPESCRIPT_EXAMPLES)
def test_an_example_in_typescript_passes_its_own_tests(name: str) -> None:
    """If this fails, the example that people copy from is wrong."""
    sdk_examples.run_typescript_tests(name)


def test_the_java_sdk_passes_its_own_tests() -> None:
    """If this fails, what authors in Java build on is wrong."""
    sdk_examples.run_java_sdk_tests()


@pytest.mark.parametrize("name", sdk_examples.JAVA_EXAMPLES)
def test_an_example_in_java_is_built_and_passes_its_own_tests(name: str) -> None:
    """If this fails, the example that people copy from is wrong, or the package cannot be built on."""
    assert list((sdk_examples.java_example(name) / "target" / "surefire-reports").glob("*.xml"))
