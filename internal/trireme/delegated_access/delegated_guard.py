"""The guard of an HTTPS server: authenticates callers and authorises requests, by reviews of the API server.

Tests: tests/security/test_insight_http.py.
"""

import contextlib
import time
from dataclasses import dataclass

from trireme.config.serving_flags import AuthenticationOptions, AuthorizationOptions
from trireme.delegated_access import serving_trust
from trireme_kube.client.rest import client, credentials
from trireme_kube.componentbase.server import authentication, authorization

# Reviews a second, and at once: the values of every server that delegates them.
REVIEW_RATE = (200.0, 400)


@dataclass(frozen=True, slots=True)
class ReviewConnections:
    """The connections to the API server that reviews tokens and access; None: nothing is reviewed."""

    tokens: client.ApiClient | None
    access: client.ApiClient | None


async def connect_reviews(
    stack: contextlib.AsyncExitStack, agent: str, *, token_kubeconfig: str | None, access_kubeconfig: str | None
) -> ReviewConnections:
    """Make the connections, which `stack` closes. A kubeconfig None: no reviews; empty: the pod's service account.

    Raises: ConfigurationError.
    """
    tokens = None if token_kubeconfig is None else await _connect(stack, agent, token_kubeconfig)
    access = None if access_kubeconfig is None else await _connect(stack, agent, access_kubeconfig)
    return ReviewConnections(tokens, access)


async def _connect(stack: contextlib.AsyncExitStack, agent: str, kubeconfig: str) -> client.ApiClient:
    """A connection for reviews; with its own rate limit, so that a scraper cannot slow down scheduling."""
    source, (qps, burst) = credentials.Source(kubeconfig), REVIEW_RATE
    settings = client.ClientSettings(source, agent, qps, burst, max_connections=4)
    return await stack.enter_async_context(await client.connect(settings))


class DelegatedGuard:
    """Authenticates callers by `trust` and token reviews, and authorises them by access reviews, which it caches."""

    def __init__(
        self,
        authentication_options: AuthenticationOptions,
        authorization_options: AuthorizationOptions,
        trust: serving_trust.ClusterTrust,
        reviews: ReviewConnections,
    ) -> None:
        authenticator = authentication.Authenticator(
            trust.trust,
            serving_trust.ReviewClient(reviews.tokens).token if reviews.tokens is not None else None,
            authentication_options.cache_ttl.seconds,
            time.monotonic,
        )
        authorizer = authorization.Authorizer(
            authorization_options.always_allow_paths,
            serving_trust.ReviewClient(reviews.access).access if reviews.access is not None else None,
            authorization_options.allow_cache_ttl.seconds,
            authorization_options.deny_cache_ttl.seconds,
            time.monotonic,
        )
        self.authenticate = authenticator.authenticate
        self.authorize = authorizer.authorize
        self.authorize_resource = authorizer.authorize_resource
