"""Comparing the lines of two runs."""

from tests.simulation import simulation_plan, simulation_trace


def test_equal_lines_are_counted() -> None:
    """If this fails, a replay says that runs differ which do not."""
    comparison = simulation_trace.Comparison(["a", "b"])
    for line in "ab":
        comparison.compare(line)
    comparison.finish()
    assert (comparison.equal_lines, comparison.difference, comparison.ended) == (2, "", False)


def test_the_first_difference_is_shown_after_equal_lines() -> None:
    """If this fails, one has to look for what went differently."""
    comparison = simulation_trace.Comparison("abcd")
    for line in "abxd":
        comparison.compare(line)
    assert comparison.difference == "  a\n  b\n- c\n+ x"
    assert comparison.equal_lines == 2


def test_a_trace_that_was_cut_off_is_compared_as_far_as_it_goes() -> None:
    """If this fails, the trace of a run that was interrupted cannot be compared."""
    comparison = simulation_trace.Comparison("a")
    comparison.compare("a")
    comparison.compare("b")
    assert comparison.ended
    assert not comparison.difference


def test_a_run_that_ends_early_differs() -> None:
    """If this fails, a replay that stops half-way is taken for equal."""
    comparison = simulation_trace.Comparison("ab")
    comparison.compare("a")
    comparison.finish()
    assert comparison.difference == "  a\n- b\n+ (the end)"


def test_options_survive_a_file() -> None:
    """If this fails, a replay or a plan is of another run."""
    events = (simulation_plan.PlannedEvent(2, 1.25, "fault", "kill", 3),)
    options = simulation_plan.Options(7, 0.5, 12, ("kill", "stall"), no_faults=False, events=events)
    assert simulation_plan.Options.from_json(options.to_json()) == options
