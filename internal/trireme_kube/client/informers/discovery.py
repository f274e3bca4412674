"""Whether the API server serves a collection, by its discovery.

A list of what is not served is answered with 404, but only to those who may list it: authorisation comes first, and the
roles of an earlier version do not name what only later ones serve. Discovery tells 403 from 404; every authenticated
user may read it.

Tests: tests/contract/test_kube_informer.py, tests/contract/test_frontend_elector.py.
"""

from trireme_kube.client.informers import resources
from trireme_kube.client.rest import client
from trireme_kube.client.rest.errors import ApiError

DEADLINE_SECONDS = 10.0


async def is_served(api: client.ApiClient, resource: resources.Resource) -> bool:
    """Whether the collection is served in this version of the API.

    Raises: ApiError, ApiUnreachable: the server did not say.
    """
    root = "/apis/" if resource.path.startswith("/apis/") else "/api/"
    version, _, plural = f"{root}{resource.api}".rpartition("/")
    try:
        response = await api.read(version, deadline=DEADLINE_SECONDS)
    except ApiError as error:
        if error.not_found:
            return False
        raise
    return any(each.get("name") == plural for each in response.json().get("resources") or ())
