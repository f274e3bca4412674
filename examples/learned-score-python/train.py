"""Trains the model: `python train.py [--observations FILE.csv] [--output model.json]`.

A file of observations has a column for each feature and `slowdown`: how long a finished pod took, divided by how long
such pods take on an empty node. Without a file they are invented: pods are slowed down by busy cores, by little memory,
and a little by each neighbour.
"""

import argparse
import csv
import pathlib
import sys
from collections.abc import Sequence

import boosted_stumps
import node_features
import numpy as np

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
    if len(table) < _LEAST:
        raise ValueError(f"{path}: has {len(table)} observations, must have at least {_LEAST}")
    values = np.array(table)
    return values[:, :-1], values[:, -1]


def main(argv: Sequence[str] | None = None) -> int:
    """Train, tell how good the model is on what it has not seen, and write it; returns the exit code."""
    parser = argparse.ArgumentParser(description="Trains the model of LearnedScore.", allow_abbrev=False)
    parser.add_argument("--observations", type=pathlib.Path, help="CSV file; without it they are invented")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path(__file__).with_name("model.json"))
    options = parser.parse_args(argv)
    try:
        rows, values = read(options.observations) if options.observations else invented()
    except (OSError, ValueError) as error:
        print(f"Error: --observations: {error}", file=sys.stderr)
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
