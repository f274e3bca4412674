"""Who calls and what they may do, where no network is needed."""

import asyncio
import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.helpers.virtual_time import Clock
from trireme_kube.componentbase.server import authentication, authorization
from trireme_kube.componentbase.server.authentication import ANONYMOUS, ReviewError, Unauthenticated, User
from trireme_kube.componentbase.server.expiring_cache import MAX_ENTRIES, ExpiringCache

BEARER = (("Authorization", "Bearer secret"),)


class Tokens:
    """An API server that knows one token, and counts the questions."""

    def __init__(self, fails: bool = False) -> None:
        self.asked = 0
        self.fails = fails

    async def review(self, token: str) -> User | None:
        """Whose it is."""
        self.asked += 1
        await asyncio.sleep(0)
        if self.fails:
            raise ReviewError("no answer")
        return User("jane", ("people",)) if token == "secret" else None


def _authenticator(tokens: Tokens | None, clock: Clock | None = None) -> authentication.Authenticator:
    review = None if tokens is None else tokens.review
    return authentication.Authenticator(authentication.Trust, review, 10.0, clock or Clock())


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("Authorization", "Basic c2VjcmV0"),),
        (("Authorization", "Bearer "),),
        (("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")),
    ],
    ids=["nothing", "no token", "empty token", "headers of a proxy"],
)
async def test_a_caller_without_credentials_is_anonymous(headers: authentication.Headers) -> None:
    """Anybody could be whom he says he is, or probes without credentials would be refused."""
    assert await _authenticator(Tokens()).authenticate(headers, None) == ANONYMOUS


UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")


def _certified(*uids: str) -> tuple[x509.Certificate, bytes]:
    """An authority, and a certificate of Jane by it that states these UIDs, DER."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "jane"), *(x509.NameAttribute(UID, uid) for uid in uids)]
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def sign(subject: x509.Name) -> x509.Certificate:
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        return builder.not_valid_before(start).not_valid_after(start.replace(year=2100)).sign(key, hashes.SHA256())

    return sign(issuer), sign(x509.Name(names)).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(("with_uid", "expected"), [(True, "u-1"), (False, "")])
async def test_a_certificate_may_state_the_uid_of_its_user(with_uid: bool, expected: str) -> None:
    """Who authorizes by UID could not tell a user from one of the same name before him."""
    authority, leaf = _certified("u-1")
    trust = authentication.Trust((authority,), with_uid=with_uid)
    user = await authentication.Authenticator(lambda: trust, None, 10.0, Clock()).authenticate((), leaf)
    assert (user.name, user.uid) == ("jane", expected)


async def test_a_certificate_with_two_uids_is_refused() -> None:
    """Its user might be either."""
    authority, leaf = _certified("u-1", "u-2")
    trust = authentication.Trust((authority,))
    with pytest.raises(Unauthenticated):
        await authentication.Authenticator(lambda: trust, None, 10.0, Clock()).authenticate((), leaf)


async def test_a_token_names_its_user() -> None:
    """Nobody could be told apart."""
    user = await _authenticator(Tokens()).authenticate(BEARER, None)
    assert user == User("jane", ("people", "system:authenticated"))


@pytest.mark.parametrize("tokens", [Tokens(fails=True), Tokens()], ids=["no answer", "nobody's"])
async def test_an_unauthenticated_token_is_refused(tokens: Tokens) -> None:
    """A wrong token would be as good as none, and hide that it is wrong."""
    wrong = (("Authorization", "Bearer other"),)
    with pytest.raises(Unauthenticated):
        await _authenticator(tokens).authenticate(wrong, None)


async def test_without_reviews_tokens_are_ignored() -> None:
    """A frontend without a kubeconfig for reviews would refuse every caller that sends a token."""
    assert await _authenticator(None).authenticate(BEARER, None) == ANONYMOUS


async def test_token_reviews_are_shared_and_expire() -> None:
    """Each request would cost a review, or a token that was taken back would be good forever."""
    tokens, clock = Tokens(), Clock()
    authenticator = _authenticator(tokens, clock)
    await asyncio.gather(*(authenticator.authenticate(BEARER, None) for _ in range(5)))
    await authenticator.authenticate(BEARER, None)
    assert tokens.asked == 1
    clock.now = 10.0
    await authenticator.authenticate(BEARER, None)
    assert tokens.asked == 2


@pytest.mark.parametrize(
    ("user", "path", "allowed"),
    [
        (User("a"), "/healthz", True),
        (User("a"), "/healthz/ping", False),
        (User("a"), "/open", True),
        (User("a"), "/open/below", True),
        (User("a"), "/metrics", False),
        (User("root", ("system:masters",)), "/metrics", True),
        (User("system:masters"), "/metrics", False),
    ],
)
async def test_paths_that_need_no_review(user: User, path: str, allowed: bool) -> None:
    """Probes would be refused, or more than them be open."""
    authorizer = authorization.Authorizer(("/healthz", "/open*"), None, 1.0, 1.0, Clock())
    assert (await authorizer.authorize(user, "get", path)).allowed is allowed


async def test_allowed_and_denied_verdicts_are_cached_for_their_own_time() -> None:
    """A right that was given would be missed for long, or one that was taken kept."""
    asked: list[str] = []

    async def review(user: User, access: authorization.Access) -> authorization.AccessVerdict:
        assert isinstance(access, authorization.PathAccess)
        asked.append(access.path)
        return authorization.AccessVerdict(access.path == "/yes")

    clock = Clock()
    authorizer = authorization.Authorizer((), review, 30.0, 10.0, clock)
    for moment in (0.0, 5.0, 10.0, 29.0, 30.0):
        clock.now = moment
        await authorizer.authorize(User("a"), "get", "/yes")
        await authorizer.authorize(User("a"), "get", "/no")
    assert (asked.count("/yes"), asked.count("/no")) == (2, 3)


async def test_a_verdict_about_an_object_is_for_it_alone() -> None:
    """A right to one pod would be one to all, or a path be mistaken for an object."""
    reviewed: list[authorization.Access] = []
    allowed = authorization.ResourceAccess("get", "pods", "ns", "web")

    async def review(user: User, access: authorization.Access) -> authorization.AccessVerdict:
        reviewed.append(access)
        return authorization.AccessVerdict(access == allowed)

    authorizer = authorization.Authorizer(("*",), review, 30.0, 10.0, Clock())
    for access, verdict in (
        (allowed, True),
        (authorization.ResourceAccess("get", "pods", "ns", "db"), False),
        (authorization.ResourceAccess("get", "pods", "other", "web"), False),
        (authorization.ResourceAccess("list", "pods"), False),
        (allowed, True),
    ):
        assert (await authorizer.authorize_resource(User("a"), access)).allowed is verdict
        assert (await authorizer.authorize_resource(User("root", ("system:masters",)), access)).allowed
    assert reviewed.count(allowed) == 1
    assert len(reviewed) == 4


@pytest.mark.parametrize(
    ("access", "text"),
    [
        (
            authorization.ResourceAccess("get", "pods", "ns", "web"),
            'pods "web" is forbidden: User "a" cannot get resource "pods" in API group "" in the namespace "ns"',
        ),
        (
            authorization.ResourceAccess("list", "nodes"),
            'nodes is forbidden: User "a" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
    ],
)
def test_a_forbidden_object_is_named_as_the_api_server_names_it(
    access: authorization.ResourceAccess, text: str
) -> None:
    """Who administers the cluster searches for the words that kubectl shows."""
    assert authorization.forbidden_resource_message(User("a"), access, "") == text
    assert authorization.forbidden_resource_message(User("a"), access, "no role") == f"{text}: no role"


def test_a_cache_of_reviews_is_bounded() -> None:
    """A client that sends many tokens could fill the memory."""
    cache: ExpiringCache[int, int] = ExpiringCache(Clock())
    for number in range(MAX_ENTRIES + 10):
        cache.put(number, number, 10.0)
    assert (cache.get(9), cache.get(10), cache.get(MAX_ENTRIES + 9)) == (None, 10, MAX_ENTRIES + 9)


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("", 'forbidden: User "a" cannot get path "/metrics"'),
        ("so it is", 'forbidden: User "a" cannot get path "/metrics": so it is'),
    ],
)
def test_a_forbidden_caller_gets_the_reason(reason: str, text: str) -> None:
    """Nobody would know which right is missing."""
    assert authorization.forbidden_message(User("a"), "get", "/metrics", reason) == text
