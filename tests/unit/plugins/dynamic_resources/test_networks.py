"""Addresses and networks in CEL selectors: the results of Kubernetes' functions for them, and for other texts."""

import pytest

from trireme.plugins.dynamic_resources import expressions

DEVICE = expressions.cel_device("nic.example.com", False, {"nic.example.com": {"address": "10.1.2.3"}}, {})
ADDRESS = 'device.attributes["nic.example.com"].address'
NOT_AN_ADDRESS = "parse error during conversion from string: ParseAddr"
NOT_A_NETWORK = "network address parse error during conversion from string: "


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        pytest.param(f"ip({ADDRESS}).family() == 4", True, id="an attribute"),
        pytest.param(f'cidr("10.0.0.0/8").containsIP({ADDRESS})', True, id="an attribute in a network"),
        pytest.param('ip("2001:db8::68").family() == 6', True, id="family"),
        pytest.param('ip("::1") == ip("0:0::1") && ip("1.2.3.4") != ip("1.2.3.5")', True, id="equal addresses"),
        pytest.param('isIP("192.168.0.1") && isIP("2001:db8::68")', True, id="isIP"),
        pytest.param('isIP("192.168.0.1.0") || isIP("2001:db8:::68") || isIP("fe80::1%eth0")', False, id="not isIP"),
        pytest.param('ip.isCanonical("127.0.0.1") && ip.isCanonical("2001:db8::68")', True, id="isCanonical"),
        pytest.param('ip.isCanonical("2001:DB8::68")', False, id="not isCanonical"),
        pytest.param('ip("0.0.0.0").isUnspecified() && ip("::").isUnspecified()', True, id="isUnspecified"),
        pytest.param('ip("127.0.0.1").isUnspecified() || ip("::1").isUnspecified()', False, id="not isUnspecified"),
        pytest.param('ip("127.0.0.1").isLoopback() && ip("::1").isLoopback()', True, id="isLoopback"),
        pytest.param('ip("1.2.3.4").isLoopback() || ip("2001:db8::abcd").isLoopback()', False, id="not isLoopback"),
        pytest.param(
            'ip("224.0.0.1").isLinkLocalMulticast() && ip("ff02::1").isLinkLocalMulticast()'
            ' && ip("ff12::1").isLinkLocalMulticast()',
            True,
            id="isLinkLocalMulticast",
        ),
        pytest.param(
            'ip("224.0.1.1").isLinkLocalMulticast() || ip("fd00::1").isLinkLocalMulticast()',
            False,
            id="not isLinkLocalMulticast",
        ),
        pytest.param(
            'ip("169.254.169.254").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast()',
            True,
            id="isLinkLocalUnicast",
        ),
        pytest.param(
            'ip("192.168.0.1").isLinkLocalUnicast() || ip("fd80::1").isLinkLocalUnicast()',
            False,
            id="not isLinkLocalUnicast",
        ),
        pytest.param(
            'ip("192.168.0.1").isGlobalUnicast() && ip("2001:db8::abcd").isGlobalUnicast()', True, id="isGlobalUnicast"
        ),
        pytest.param(
            'ip("255.255.255.255").isGlobalUnicast() || ip("ff00::1").isGlobalUnicast()',
            False,
            id="not isGlobalUnicast",
        ),
        pytest.param('cidr("192.168.0.0/24").containsIP(ip("192.168.0.1"))', True, id="containsIP"),
        pytest.param('cidr("2001:db8::/32").containsIP("2001:db8::1")', True, id="containsIP of a text"),
        pytest.param('cidr("192.168.0.0/24").containsIP("192.168.1.1")', False, id="an address elsewhere"),
        pytest.param('cidr("0.0.0.0/0").containsIP("::1")', False, id="an address of the other family"),
        pytest.param('cidr("192.168.0.0/24").containsCIDR(cidr("192.168.0.1/32"))', True, id="containsCIDR"),
        pytest.param('cidr("2001:db8::/32").containsCIDR("2001:db8::/33")', True, id="containsCIDR of a text"),
        pytest.param('cidr("192.168.0.0/24").containsCIDR("192.168.0.0/23")', False, id="a larger network"),
        pytest.param('cidr("192.168.0.0/24").containsCIDR(cidr("192.169.0.1/32"))', False, id="a network elsewhere"),
        pytest.param('cidr("0.0.0.0/0").containsCIDR("::/0")', False, id="a network of the other family"),
        pytest.param('cidr("192.168.0.1/24").ip() == ip("192.168.0.1")', True, id="the address of a network"),
        pytest.param('cidr("192.168.0.1/24").masked() == cidr("192.168.0.0/24")', True, id="masked"),
        pytest.param('cidr("2001:db8:1::/32").masked() == cidr("2001:db8::/32")', True, id="masked groups"),
        pytest.param('cidr("192.168.0.1/24") == cidr("192.168.0.0/24")', False, id="networks with addresses"),
        pytest.param('cidr("2001:db8::/32").prefixLength() == 32', True, id="prefixLength"),
        pytest.param('isCIDR("10.0.0.0/8") && !isCIDR("10.0.0.0/33") && !isCIDR("10.0.0.0")', True, id="isCIDR"),
        pytest.param('isCIDR("10.0.0.0/08") || isCIDR("10.0.0.0/255.0.0.0")', False, id="other ways to say the length"),
        pytest.param('string(ip("192.168.0.1")) == "192.168.0.1"', True, id="text of an address"),
        pytest.param('string(cidr("192.168.0.0/24")) == "192.168.0.0/24"', True, id="text of a network"),
        pytest.param('string(1) == "1"', True, id="text of something else"),
    ],
)
def test_address_functions_evaluate_as_in_kubernetes(expression: str, matches: bool) -> None:
    """Selectors that go by the addresses of devices: else a claim gets a wrong device, or none."""
    assert expressions.CompiledExpressions().matches(expression, DEVICE) is matches


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("abc", "unable to parse IP", id="a word"),
        pytest.param("%eth0", "missing IPv6 address", id="a zone alone"),
        pytest.param("192.168.0.1.0", "IPv4 address too long", id="too many octets"),
        pytest.param("192.168.0", "IPv4 address too short", id="too few octets"),
        pytest.param("192.168.0.256", "IPv4 field has value >255", id="a large octet"),
        pytest.param("192.168.00.1", "IPv4 field has octet with leading zero", id="a leading zero"),
        pytest.param("192..0.1", 'IPv4 field must have at least one digit (at ".0.1")', id="an empty octet"),
        pytest.param("192.168.0.x", 'unexpected character (at "x")', id="a letter among octets"),
        pytest.param(
            "2001:db8:::68",
            'each colon-separated field must have at least one digit (at ":68")',
            id="an empty group",
        ),
        pytest.param("1::2::3", 'multiple :: in address (at ":3")', id="shortened twice"),
        pytest.param("1:2", "address string too short", id="too few groups"),
        pytest.param("1:2:", 'colon must be followed by more characters (at ":")', id="a colon at the end"),
        pytest.param("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")', id="too many groups"),
        pytest.param("1:12345::", 'each group must have 4 or less digits (at "12345::")', id="a long group"),
        pytest.param("1:2x::", 'unexpected character, want colon (at "x::")', id="a letter among groups"),
        pytest.param("1:2:3:4::5:6:7:8", "the :: must expand to at least one field of zeros", id="nothing shortened"),
        pytest.param("::1.2.3", "IPv4 address too short", id="an embedded address"),
        pytest.param(
            "1:1.2.3.4",
            'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
            id="an embedded address too early",
        ),
        pytest.param("fe80::1%", "zone must be a non-empty string", id="an empty zone"),
    ],
)
def test_errors_of_address_parsing(text: str, why: str) -> None:
    """The text goes into the event of the pod, in the words of Go's parser."""
    with pytest.raises(expressions.DeviceExpressionError) as failed:
        expressions.CompiledExpressions().matches(f'ip("{text}").isLoopback()', DEVICE)
    assert str(failed.value) == f'IP Address "{text}" {NOT_AN_ADDRESS}("{text}"): {why}'


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        pytest.param(
            'ip("fe80::1%eth0") == ip("::")', 'IP address "fe80::1%eth0" with zone value is not allowed', id="a zone"
        ),
        pytest.param(
            'ip("::ffff:1.2.3.4") == ip("::")',
            'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
            id="a mapped address",
        ),
        pytest.param(
            'cidr("192.168.0.0/").prefixLength() == 1',
            f'{NOT_A_NETWORK}{NOT_A_NETWORK}netip.ParsePrefix("192.168.0.0/"): bad bits after slash: ""',
            id="no length",
        ),
        pytest.param(
            'cidr("10.0.0.0/33").prefixLength() == 1',
            f'{NOT_A_NETWORK}{NOT_A_NETWORK}netip.ParsePrefix("10.0.0.0/33"): prefix length out of range',
            id="too long a length",
        ),
        pytest.param(
            'cidr("10.0.0.0/8").containsCIDR("x")',
            f"{NOT_A_NETWORK}{NOT_A_NETWORK}netip.ParsePrefix(\"x\"): no '/'",
            id="no network to be contained",
        ),
        pytest.param(
            'cidr("::ffff:1.2.3.4/128").prefixLength() == 1',
            f'{NOT_A_NETWORK}IPv4-mapped IPv6 address "::ffff:1.2.3.4/128" is not allowed',
            id="a mapped network",
        ),
        pytest.param('cidr("10.0.0.0/8").containsIP("x")', "no such overload", id="no address to be contained"),
        pytest.param(
            'dyn(quantity("1")).isLoopback()',
            "no such overload: isLoopback(kubernetes.Quantity)",
            id="an amount is no address",
        ),
    ],
)
def test_values_that_are_not_addresses_are_refused(expression: str, text: str) -> None:
    """What reads as an address and is not taken as one, said in kube-scheduler's words."""
    with pytest.raises(expressions.DeviceExpressionError) as failed:
        expressions.CompiledExpressions().matches(expression, DEVICE)
    assert str(failed.value) == text


def test_an_address_is_no_truth_value() -> None:
    """The type of a selector is named as Kubernetes names it."""
    with pytest.raises(expressions.CompileError, match=r"^must evaluate to bool or the unknown type, not net\.IP$"):
        expressions.CompiledExpressions().matches('ip("1.2.3.4")', DEVICE)
