"""Trains the model: `python train.py [--observations FILE.csv | --recording FILE] [--output model.json]`.

A file of observations has a column for each feature and `slowdown`: how long a finished pod took, divided by how long
such pods take on an empty node. A recording of the cluster (`trireme record export`) has them as well. Without a file
they are invented: pods are slowed down by busy cores, by little memory, and a little by each neighbour.
"""

import argparse
import csv
import pathlib
import sys
from collections.abc import Sequence

import boosted_stumps
import node_features
import numpy as np
import recorded_observations

TARGET = "slowdown"

# Every fifth observation is left out of the training, to measure by.
_HELD_OUT = 5
_LEAST = 50


def invented(count: int = 3000, seed: int = 7) -> tuple[boosted_stumps.Floats, boosted_stumps.Floats]:
    """Observations that were never made. Shapes: (row, feature), (row,)."""
    draw = np.random.default_rng(seed)
    rows = draw.uniform(0.0, 1.0, (count, len(node_features.FEATURES)))
    cpu, memory, pods, own = rows.T
    slowdown = 1 + 2.5 * np.maximum(cpu - 0.6, 0) + 4 * np.maximum(memory - 0.85, 0) + 0.3 * pods + 0.1 * own
    return rows, slowdown + draw.normal(0, 0.05, count)


def read(path: pathlib.Path) -> tuple[boosted_stumps.Floats, boosted_stumps.Floats]:
    """The observations of a file. Shapes: (row, feature), (row,). Raises: ValueError naming column and line."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        missing = sorted({*node_features.FEATURES, TARGET} - set(reader.fieldnames or ()))
        if missing:
            raise ValueError(f"{path}: no column {missing[0]}")
        table = []
        for number, line in enumerate(reader, 2):
            try:
                table.append([float(line[name]) for name in (*node_features.FEATURES, TARGET)])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}:{number}: {error}") from error
    values = np.array(table).reshape(-1, len(node_features.FEATURES) + 1)
    return values[:, :-1], values[:, -1]


def observed(options: argparse.Namespace) -> tuple[boosted_stumps.Floats, boosted_stumps.Floats]:
    """The observations that the flags name. Shapes: (row, feature), (row,). Raises: OSError, ValueError."""
    path = options.observations or options.recording
    if path is None:
        return invented()
    rows, values = read(path) if options.observations else recorded_observations.read(path)
    if values.size < _LEAST:
        raise ValueError(f"{path}: has {values.size} observations, must have at least {_LEAST}")
    return rows, values


def main(argv: Sequence[str] | None = None) -> int:
    """Train, tell how good the model is on what it has not seen, and write it; returns the exit code."""
    parser = argparse.ArgumentParser(description="Trains the model of LearnedScore.", allow_abbrev=False)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--observations", type=pathlib.Path, help="CSV file; without a file they are invented")
    source.add_argument("--recording", type=pathlib.Path, help="file that `trireme record export` wrote")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).with_name("model.json"))
    options = parser.parse_args(argv)
    try:
        rows, values = observed(options)
    except (OSError, ValueError) as error:
        flag = "--recording" if options.recording else "--observations"
        print(f"Error: {flag}: {error}", file=sys.stderr)
        return 1
    seen = np.arange(rows.shape[0]) % _HELD_OUT != 0
    model = boosted_stumps.fit(node_features.FEATURES, rows[seen], values[seen])
    error_of_model = float(np.abs(model.predict(rows[~seen]) - values[~seen]).mean())
    error_of_mean = float(np.abs(values[seen].mean() - values[~seen]).mean())
    options.output.write_text(model.to_json())
    print(f"mean error on {np.count_nonzero(~seen)} observations that it has not seen: {error_of_model:.3f}")
    print(f"that of the mean: {error_of_mean:.3f}")
    if error_of_model >= error_of_mean:
        print("Error: the model is no better than the mean; do not use it", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
