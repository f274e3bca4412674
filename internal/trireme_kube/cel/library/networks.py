"""Addresses and networks as CEL values, and the functions that selectors may call on them.

The standard library does the arithmetic. It accepts a little more than Kubernetes, with other error messages: this
module decides which texts are addresses, and why others are not.

Source: k8s.io/apiserver/pkg/cel/library (ip, cidr), net/netip of Go.

Tests: tests/unit/plugins/dynamic_resources/test_networks.py.
"""

import ipaddress
import re
import string
from collections.abc import Callable
from typing import Final, TypeVar

from trireme_kube.cel import values
from trireme_kube.cel.library import quantities_and_versions
from trireme_kube.cel.values import EvaluationError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface

_Read = TypeVar("_Read")

_OCTET_MAX: Final = 255
_OCTETS: Final = 4
_GROUPS: Final = 8
_GROUP_DIGITS: Final = 4
_BITS = re.compile(r"0|[1-9][0-9]{0,8}")


def ip(text: str) -> Address:
    """CEL's ip(string): parse an IP address. Raises: EvaluationError."""
    return _parse_or_error(_parse_address, text)


def is_ip(text: str) -> bool:
    """CEL's isIP(string): whether the text is an IP address."""
    return quantities_and_versions.succeeds(_parse_address, text)


def is_canonical(text: str) -> bool:
    """CEL's ip.isCanonical(string): whether an address is written in its canonical form."""
    return str(_parse_or_error(_parse_address, text)) == text


def family(value: Address) -> int:
    """CEL's ip.family(): 4 or 6."""
    return value.version


def is_unspecified(value: Address) -> bool:
    """CEL's ip.isUnspecified(): whether it is 0.0.0.0 or ::."""
    return value.is_unspecified


def is_loopback(value: Address) -> bool:
    """CEL's ip.isLoopback(): whether it is a loopback address."""
    return value.is_loopback


def is_link_local_multicast(value: Address) -> bool:
    """CEL's ip.isLinkLocalMulticast(): 224.0.0.0/24 and ff02::/16, whatever the flags of the latter."""
    address = value
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    first, second = address.packed[:2]
    return first == 0xFF and second & 0x0F == 0x02


def is_link_local_unicast(value: Address) -> bool:
    """CEL's ip.isLinkLocalUnicast()."""
    return value.is_link_local


def is_global_unicast(value: Address) -> bool:
    """CEL's ip.isGlobalUnicast(): also private addresses are."""
    address = value
    return not (
        address.is_unspecified
        or address.is_loopback
        or address.is_multicast
        or address.is_link_local
        or address == ipaddress.IPv4Address("255.255.255.255")
    )


def cidr(text: str) -> Interface:
    """CEL's cidr(string): parse a network, host bits included. Raises: EvaluationError."""
    return _parse_or_error(_parse_interface, text)


def is_cidr(text: str) -> bool:
    """CEL's isCIDR(string): whether the text is a network."""
    return quantities_and_versions.succeeds(_parse_interface, text)


def contains_ip(value: Interface, other: Address) -> bool:
    """CEL's cidr.containsIP(ip): whether the address is in the network."""
    return other in value.network


def contains_ip_text(value: Interface, other: str) -> bool:
    """CEL's cidr.containsIP(string)."""
    network = value.network
    try:
        return _parse_address(other) in network
    except ValueError:
        raise values.no_such_overload() from None


def contains_cidr(value: Interface, other: Interface) -> bool:
    """CEL's cidr.containsCIDR(cidr): whether all of the other network is in this one."""
    return _contains_network(value, other)


def contains_cidr_text(value: Interface, other: str) -> bool:
    """CEL's cidr.containsCIDR(string)."""
    return _contains_network(value, _parse_or_error(_parse_interface, other))


def ip_of(value: Interface) -> Address:
    """CEL's cidr.ip(): the address that the network was written with."""
    return value.ip


def prefix_length(value: Interface) -> int:
    """CEL's cidr.prefixLength(): the number of network bits."""
    return value.network.prefixlen


def masked(value: Interface) -> Interface:
    """CEL's cidr.masked(): the network without host bits."""
    return ipaddress.ip_interface(value.network.with_prefixlen)


def address_text(value: Address) -> str:
    """CEL's string(ip): the address as text."""
    return str(value)


def network_text(value: Interface) -> str:
    """CEL's string(cidr): the network as text."""
    return value.with_prefixlen


def _contains_network(one: Interface, other: Interface) -> bool:
    """Whether one network contains the other, or is the same."""
    larger, smaller = one.network, other.network
    return (
        larger.version == smaller.version
        and smaller.network_address in larger
        and larger.prefixlen <= smaller.prefixlen
    )


def _parse_or_error(parse: Callable[[str], _Read], text: str) -> _Read:
    """Parse the text, turning ValueError into EvaluationError."""
    try:
        return parse(text)
    except ValueError as error:
        raise EvaluationError(str(error)) from error


def _parse_address(text: str) -> Address:
    """Parse an IP address; zones and IPv4-mapped ones are rejected. Raises: ValueError with Kubernetes' message."""
    quoted = values.quoted(text)
    try:
        address = netip_address(text)
    except ValueError as error:
        raise ValueError(f"IP Address {quoted} parse error during conversion from string: {error}") from error
    if getattr(address, "scope_id", None):
        raise ValueError(f"IP address {quoted} with zone value is not allowed")
    if getattr(address, "ipv4_mapped", None) is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {quoted} is not allowed")
    return address


def _parse_interface(text: str) -> Interface:
    """Parse a CIDR, its host bits included. Raises: ValueError with Kubernetes' message."""
    try:
        return _parse_netip_prefix(text)
    except ValueError as error:
        raise ValueError(f"network address parse error during conversion from string: {error}") from error


def _parse_netip_prefix(text: str) -> Interface:
    """Parse a CIDR as Go's netip.ParsePrefix does, with its errors; IPv4-mapped addresses are rejected."""
    head, slash, bits = text.rpartition("/")
    if not slash:
        raise _prefix_error(text, "no '/'")
    try:
        address = netip_address(head)
    except ValueError as error:
        raise _prefix_error(text, str(error)) from error
    if getattr(address, "scope_id", None):
        raise _prefix_error(text, "IPv6 zones cannot be present in a prefix")
    if not _BITS.fullmatch(bits):
        raise _prefix_error(text, f"bad bits after slash: {values.quoted(bits)}")
    if int(bits) > address.max_prefixlen:
        raise _prefix_error(text, "prefix length out of range")
    if getattr(address, "ipv4_mapped", None) is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {values.quoted(text)} is not allowed")
    return ipaddress.ip_interface(f"{address}/{bits}")


def _prefix_error(text: str, why: str) -> ValueError:
    """Return the error of a CIDR in Go's words."""
    lead = "network address parse error during conversion from string: "
    return ValueError(f"{lead}netip.ParsePrefix({values.quoted(text)}): {why}")


def netip_address(text: str) -> Address:
    """The address, parsed as Go does. Raises: ValueError with Go's message."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        why, at = _address_problem(text)
        place = f" (at {values.quoted(at)})" if at else ""
        raise ValueError(f"ParseAddr({values.quoted(text)}): {why}{place}") from None


def _address_problem(text: str) -> tuple[str, str]:
    """Why Go would reject it, and the text that it had not read yet."""
    kind = next((letter for letter in text if letter in ".:%"), "")
    if kind == ".":
        return _ipv4_problem(text)
    if kind == ":":
        return _ipv6_problem(text)
    return ("missing IPv6 address" if kind else "unable to parse IP"), ""


def _ipv4_problem(text: str) -> tuple[str, str]:
    """Return what Go's netip says is wrong with an IPv4 address, and from where in the text, or an empty text."""
    digits, dots = "", 0
    for at, letter in enumerate(text):
        if "0" <= letter <= "9":
            if digits == "0":
                return "IPv4 field has octet with leading zero", ""
            digits += letter
            if int(digits) > _OCTET_MAX:
                return "IPv4 field has value >255", ""
        elif letter != ".":
            return "unexpected character", text[at:]
        elif not digits or at == len(text) - 1:
            return "IPv4 field must have at least one digit", text[at:]
        elif dots == _OCTETS - 1:
            return "IPv4 address too long", ""
        else:
            digits, dots = "", dots + 1
    return "IPv4 address too short", ""


def _ipv6_problem(text: str) -> tuple[str, str]:
    """What Go finds wrong with an IPv6 address that is known to be invalid, and where."""
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        return "zone must be a non-empty string", ""
    shortened = rest.startswith("::")
    rest = rest.removeprefix("::")
    groups = 0
    while groups < _GROUPS:
        digits = len(rest) - len(rest.lstrip(string.hexdigits))
        if digits > _GROUP_DIGITS:
            return "each group must have 4 or less digits", rest
        if not digits:
            return "each colon-separated field must have at least one digit", rest
        after = rest[digits:]
        if after.startswith("."):
            return _embedded_ipv4_problem(rest, groups, shortened)
        groups += 1
        if not after:
            rest = ""
            break
        if not after.startswith(":"):
            return "unexpected character, want colon", after
        if after == ":":
            return "colon must be followed by more characters", after
        rest = after[1:]
        if rest.startswith(":"):
            if shortened:
                return "multiple :: in address", rest
            shortened, rest = True, rest[1:]
            if not rest:
                break
    if rest:
        return "trailing garbage after address", rest
    if groups < _GROUPS:
        return "address string too short", ""
    return "the :: must expand to at least one field of zeros", ""


def _embedded_ipv4_problem(rest: str, groups: int, shortened: bool) -> tuple[str, str]:
    """Return what Go says is wrong with an IPv4 address at the end of an IPv6 one, and from where in the text."""
    if not shortened and groups != _GROUPS - 2:
        return "embedded IPv4 address must replace the final 2 fields of the address", rest
    if groups > _GROUPS - 2:
        return "too many hex fields to fit an embedded IPv4 at the end of the address", rest
    try:
        ipaddress.IPv4Address(rest)
    except ValueError:
        return _ipv4_problem(rest)
    return "the :: must expand to at least one field of zeros", ""
