"""The scheduler plugin LearnedScore: prefers nodes where a model expects a pod to be slowed down least.

`python learned_score.py --model model.json --listen 127.0.0.1:9000` serves it.
"""

import argparse
import hashlib
import pathlib
import sys
from collections.abc import Sequence

import boosted_stumps
import node_features
import numpy as np

from trireme import sdk

# Scores are whole numbers: slowdowns in thousandths.
_RESOLUTION = 1000


class LearnedScore:
    """The model predicts for all nodes of a call at once, so a call costs little more than one node does."""

    def __init__(self, model: boosted_stumps.Model) -> None:
        self._model = model
        self._features = node_features.FeatureReader()
        revision = hashlib.sha256(model.to_json().encode()).hexdigest()[:12]
        self.info = sdk.Info(
            "LearnedScore",
            # Another model answers otherwise: the scheduler drops what it has cached.
            version=f"1.0.0 model {revision}",
            # The next pod is scored anew on the node that the one before it took, and there alone.
            depends_on=sdk.Dependency.NODE_PODS,
            node_data=sdk.NodeData.SNAPSHOT,
            pod_fields=("spec.containers.resources",),
            # The smallest slowdown is the best score.
            normalization=sdk.Normalization.MAX_REVERSED,
        )

    def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        """The expected slowdown of the pod on each node beyond none, in thousandths."""
        if not nodes:
            return []
        slowdowns = self._model.predict(self._features.rows(call.pod, nodes))
        scores: list[int] = np.maximum(np.rint((slowdowns - 1) * _RESOLUTION), 0).astype(int).tolist()
        return scores


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the plugin; returns the exit code."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--model", type=pathlib.Path, default=pathlib.Path(__file__).with_name("model.json"))
    options, others = parser.parse_known_args(argv)
    try:
        model = boosted_stumps.Model.from_json(options.model.read_text(), node_features.FEATURES)
    except (OSError, boosted_stumps.ModelError) as error:
        print(f"Error: --model: {options.model}: {error}", file=sys.stderr)
        return 1
    return sdk.main(LearnedScore(model), others)


if __name__ == "__main__":
    raise SystemExit(main())
