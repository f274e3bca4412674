"""A small model: gradient-boosted decision stumps for a number, in NumPy.

Each stump compares one feature with a threshold; the prediction is the sum of what all say. So it is learned in a
second, can be read, and predicts for thousands of rows in one operation.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# How many thresholds are tried for a feature in each round.
_CANDIDATES = 32


class ModelError(ValueError):
    """The file is no model, or one of other features; the text says which field is wrong."""


@dataclass(frozen=True, slots=True)
class Stump:
    """`at_most` is added where the feature of this number is at most the threshold, `above` elsewhere."""

    feature: int
    threshold: float
    at_most: float
    above: float


class Model:
    """A mean and some stumps, for rows of the features of these names."""

    def __init__(self, features: tuple[str, ...], mean: float, stumps: list[Stump]) -> None:
        self.features = features
        self.mean = mean
        self.stumps = stumps
        self._feature = np.array([stump.feature for stump in stumps], dtype=np.intp)
        self._threshold = np.array([stump.threshold for stump in stumps])
        self._at_most = np.array([stump.at_most for stump in stumps])
        self._above = np.array([stump.above for stump in stumps])

    def predict(self, rows: Floats) -> Floats:
        """The prediction for each row, all at once. Shapes: rows (row, feature); result (row,)."""
        said = np.where(rows[:, self._feature] <= self._threshold, self._at_most, self._above)
        predictions: Floats = self.mean + said.sum(axis=1)
        return predictions

    def to_json(self) -> str:
        """The model as text; the same model gives the same text."""
        document = {"features": self.features, "mean": self.mean, "stumps": [asdict(stump) for stump in self.stumps]}
        return json.dumps(document, indent=1) + "\n"

    @staticmethod
    def from_json(text: str, features: tuple[str, ...]) -> "Model":
        """Read a model for rows of these features. Raises: ModelError."""
        try:
            document = json.loads(text)
            found = tuple(document["features"])
            mean, stumps = float(document["mean"]), [_stump(each, len(features)) for each in document["stumps"]]
        except (ValueError, TypeError, KeyError) as error:
            raise ModelError(f"is no model: {error!r}") from error
        if found != features:
            raise ModelError(f"features: it was trained with {', '.join(found)}, not {', '.join(features)}")
        return Model(found, mean, stumps)


def _stump(entry: dict[str, Any], features: int) -> Stump:
    stump = Stump(int(entry["feature"]), float(entry["threshold"]), float(entry["at_most"]), float(entry["above"]))
    if not 0 <= stump.feature < features:
        raise ValueError(f"feature {stump.feature} is none of {features}")
    return stump


def fit(features: tuple[str, ...], rows: Floats, values: Floats, rounds: int = 80, rate: float = 0.2) -> Model:
    """Learn from rows and their values, by squares. Shapes: rows (row, feature); values (row,).

    The same rows give the same model: nothing is random.
    """
    mean = float(values.mean())
    left = values - mean
    thresholds = np.quantile(rows, np.linspace(0.02, 0.98, _CANDIDATES), axis=0)
    stumps = []
    for _ in range(rounds):
        stump = _best_stump(rows, left, thresholds, rate)
        stumps.append(stump)
        left = left - np.where(rows[:, stump.feature] <= stump.threshold, stump.at_most, stump.above)
    return Model(features, round(mean, 6), stumps)


def _best_stump(rows: Floats, left: Floats, thresholds: Floats, rate: float) -> Stump:
    """The stump that leaves least. Shapes: rows (row, feature), left (row,), thresholds (candidate, feature)."""
    best, most = Stump(0, 0.0, 0.0, 0.0), -1.0
    for feature in range(rows.shape[1]):
        below = rows[:, feature] <= thresholds[:, feature, None]  # (candidate, row)
        counts = below.sum(axis=1)
        sums = below @ left
        others = rows.shape[0] - counts
        means = sums / np.maximum(counts, 1)
        means_above = (left.sum() - sums) / np.maximum(others, 1)
        gains = counts * means**2 + others * means_above**2
        at = int(gains.argmax())
        if gains[at] > most:
            most = float(gains[at])
            threshold = round(float(thresholds[at, feature]), 6)
            best = Stump(feature, threshold, round(rate * means[at], 6), round(rate * means_above[at], 6))
    return best
