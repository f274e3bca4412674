"""What nodes cost and how much carbon their power causes: a JSON file that is read again when it changes."""

import hashlib
import json
import logging
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)

HOURS = 24


class MarketError(ValueError):
    """The file cannot be used; the text names the field and what it must be."""


@dataclass(frozen=True, slots=True)
class Market:
    """The file's content. Prices per hour by instance type, zone ("": any) and whether it is spot; g CO2/kWh by zone.

    `revision` is another one for another content. The highest price and intensity are what nodes are compared with.
    """

    prices: Mapping[tuple[str, str, bool], float]
    carbon: Mapping[str, tuple[float, ...]]
    revision: str

    def price(self, instance_type: str, zone: str, spot: bool) -> float | None:
        """The price of a node for an hour: that of its zone, else that of any zone; None: unknown."""
        return self.prices.get((instance_type, zone, spot), self.prices.get((instance_type, "", spot)))

    def intensity(self, zone: str, hour: int) -> float | None:
        """How much carbon power causes in the zone in an hour of the day (UTC, 0 to 23); None: unknown."""
        hours = self.carbon.get(zone)
        return None if hours is None else hours[hour]

    @property
    def highest_intensity(self) -> float:
        """The highest of all zones and hours; 0 without any."""
        return max((max(hours) for hours in self.carbon.values()), default=0.0)


def parse(data: bytes) -> Market:
    """Read the file's content. Raises: MarketError."""
    try:
        document = json.loads(data)
    except ValueError as error:
        raise MarketError(f"is no JSON: {error}") from error
    if not isinstance(document, dict) or set(document) - {"prices", "carbonByZone"}:
        raise MarketError("must be an object with the fields prices and carbonByZone")
    prices: dict[tuple[str, str, bool], float] = {}
    for number, entry in enumerate(_of_type(document.get("prices", []), list, "prices")):
        prices |= _prices_of(entry, f"prices[{number}]")
    carbon = _of_type(document.get("carbonByZone", {}), dict, "carbonByZone")
    by_zone = {zone: _hours_of(hours, f"carbonByZone[{zone}]") for zone, hours in carbon.items()}
    return Market(prices, by_zone, hashlib.sha256(data).hexdigest()[:12])


def _prices_of(entry: Any, path: str) -> dict[tuple[str, str, bool], float]:
    fields = _of_type(entry, dict, path)
    instance_type = _of_type(fields.get("instanceType"), str, f"{path}.instanceType")
    zone = _of_type(fields.get("zone", ""), str, f"{path}.zone")
    unknown = sorted(set(fields) - {"instanceType", "zone", "onDemand", "spot"})
    if unknown:
        raise MarketError(f"{path}.{unknown[0]}: unknown field")
    kinds = {"onDemand": False, "spot": True}
    return {
        (instance_type, zone, spot): _number(fields[kind], f"{path}.{kind}")
        for kind, spot in kinds.items()
        if kind in fields
    }


def _hours_of(hours: Any, path: str) -> tuple[float, ...]:
    numbers = tuple(_number(each, f"{path}[{hour}]") for hour, each in enumerate(_of_type(hours, list, path)))
    if len(numbers) != HOURS:
        raise MarketError(f"{path}: must have {HOURS} numbers, one for each hour of the day in UTC, not {len(numbers)}")
    return numbers


def _number(value: Any, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise MarketError(f"{path}: must be a number of at least 0")
    return float(value)


def _of_type(value: Any, kind: type, path: str) -> Any:
    if not isinstance(value, kind):
        raise MarketError(f"{path}: must be {'an object' if kind is dict else 'a list' if kind is list else 'a text'}")
    return value


class MarketFile:
    """The file, checked for changes at each read; while it cannot be read, the last valid content stays in force."""

    def __init__(self, path: pathlib.Path) -> None:
        """Raises: MarketError where the file cannot be used at the start."""
        self._path = path
        self._seen = self._stamp()
        self._market = self._read()

    def current(self) -> Market:
        """The newest content that could be used."""
        stamp = self._stamp()
        if stamp != self._seen:
            self._seen = stamp
            try:
                self._market = self._read()
                log.info("%s was read again, revision %s", self._path, self._market.revision)
            except MarketError as error:
                log.error("%s; the prices before stay in force", error)
        return self._market

    def _stamp(self) -> tuple[int, int, int]:
        """Another one if the file was changed or replaced."""
        try:
            found = self._path.stat()
        except OSError:
            return (0, 0, 0)
        return (found.st_ino, found.st_mtime_ns, found.st_size)

    def _read(self) -> Market:
        try:
            return parse(self._path.read_bytes())
        except (OSError, MarketError) as error:
            raise MarketError(f"{self._path}: {error}") from error
