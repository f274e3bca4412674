"""The scheduler plugin CostAndCarbon: prefers nodes that are cheap, and whose power is clean at this hour.

python cost_carbon.py --prices prices.json --listen 127.0.0.1:9000
"""

import argparse
import logging
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import market

from trireme import sdk

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
# Of spot nodes, unless the arguments say otherwise.
SPOT_LABEL, SPOT_VALUE = "karpenter.sh/capacity-type", "spot"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """A profile's arguments. A node is spot if its label `spot_label` has the value `spot_value`."""

    cost_weight: float = 1.0
    carbon_weight: float = 1.0
    spot_label: str = SPOT_LABEL
    spot_value: str = SPOT_VALUE


class CostAndCarbon:
    """Its answers depend on the node, the file and the hour.

    The scheduler keeps an answer as long as the node and the plugin's version stay, so the version has the other two.
    """

    def __init__(self, prices: market.MarketFile, hour: Callable[[], int] = lambda: time.gmtime().tm_hour) -> None:
        """`hour` gives the hour of the day in UTC, 0 to 23."""
        self._prices = prices
        self._hour = hour
        self._unknown: set[tuple[str, str]] = set()

    @property
    def info(self) -> sdk.Info:
        """Read at each handshake, every few seconds: a new version has the scheduler ask again."""
        return sdk.Info(
            "CostAndCarbon",
            version=f"1.0.0 prices {self._prices.current().revision} hour {self._hour()}",
            depends_on=sdk.Dependency.NODE,
            node_data=sdk.NodeData.MESSAGES,
            pod_fields=("metadata.namespace",),
        )

    def configure(self, configuration: sdk.Configuration) -> Settings:
        """The weights of cost and carbon, and how spot nodes are told."""
        if not isinstance(configuration.args, dict):
            raise sdk.InvalidArguments(("args", "must be an object"))
        args: Mapping[str, Any] = configuration.args
        known = {"costWeight", "carbonWeight", "spotLabel", "spotValue"}
        problems = [(f"args.{name}", "unknown field") for name in args if name not in known]
        weights = [args.get(name, 1.0) for name in ("costWeight", "carbonWeight")]
        for name, weight in zip(("costWeight", "carbonWeight"), weights, strict=True):
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 100:
                problems.append((f"args.{name}", "must be a number from 0 to 100"))
        if weights == [0, 0]:
            problems.append(("args.costWeight", "must be above 0, or carbonWeight must"))
        texts = [args.get("spotLabel", SPOT_LABEL), args.get("spotValue", SPOT_VALUE)]
        for name, text in zip(("spotLabel", "spotValue"), texts, strict=True):
            if not isinstance(text, str) or not text:
                problems.append((f"args.{name}", "must be a text that is not empty"))
        if problems:
            raise sdk.InvalidArguments(*problems)
        return Settings(float(weights[0]), float(weights[1]), *texts)

    def score_nodes(self, call: sdk.Call, nodes: Sequence[sdk.Node]) -> list[int]:
        """100 for a node that costs nothing and causes no carbon, 0 for the most expensive and dirtiest there is."""
        now, hour = self._prices.current(), self._hour()
        settings: Settings = call.config
        highest_price = max(now.prices.values(), default=0.0)
        weights = settings.cost_weight + settings.carbon_weight
        out = []
        for node in nodes:
            cost = _share(self._price(now, node, settings), highest_price)
            carbon = _share(self._intensity(now, node, hour), now.highest_intensity)
            out.append(round(100 - 100 * (settings.cost_weight * cost + settings.carbon_weight * carbon) / weights))
        return out

    def _price(self, now: market.Market, node: sdk.Node, settings: Settings) -> float | None:
        spot = node.labels.get(settings.spot_label) == settings.spot_value
        instance_type, zone = node.labels.get(INSTANCE_TYPE, ""), node.labels.get(ZONE, "")
        price = now.price(instance_type, zone, spot)
        if price is None:
            self._warn_once("price", f"{instance_type or 'without a type'}{', spot' if spot else ''}")
        return price

    def _intensity(self, now: market.Market, node: sdk.Node, hour: int) -> float | None:
        intensity = now.intensity(node.labels.get(ZONE, ""), hour)
        if intensity is None:
            self._warn_once("carbon intensity", f"zone {node.labels.get(ZONE, '') or 'without a name'}")
        return intensity

    def _warn_once(self, what: str, of: str) -> None:
        if (what, of) not in self._unknown:
            self._unknown.add((what, of))
            log.warning("no %s of %s: such nodes count as the worst", what, of)


def _share(value: float | None, highest: float) -> float:
    """The value as a share of the highest one; what is unknown counts as the highest."""
    if value is None:
        return 1.0
    return value / highest if highest else 0.0


def main(argv: Sequence[str] | None = None) -> int:
    """Serve the plugin; returns the exit code."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--prices", type=pathlib.Path, default=pathlib.Path(__file__).with_name("prices.json"))
    options, others = parser.parse_known_args(argv)
    try:
        prices = market.MarketFile(options.prices)
    except market.MarketError as error:
        print(f"Error: --prices: {error}", file=sys.stderr)
        return 1
    return sdk.main(CostAndCarbon(prices), others)


if __name__ == "__main__":
    raise SystemExit(main())
