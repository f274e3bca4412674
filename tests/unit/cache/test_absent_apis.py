"""The line of the log about an older API server."""

from typing import Any

from trireme.cache import absent_apis
from trireme_kube.client.informers import informer, resources
from trireme_kube.client.rest.errors import ApiError

_MISSING = ApiError(404, "", "404 page not found")


def _informer(resource: resources.Resource, *, served: bool) -> informer.Informer[Any]:
    api: Any = None  # no request is made
    found: informer.Informer[Any] = informer.Informer(api, resource, dict, [])
    if not served:
        found._protocol.failed(_MISSING)
    return found


def test_what_is_not_served_is_found() -> None:
    """An operator would not learn why devices are not tainted."""
    informers = [
        _informer(resources.PODS, served=True),
        _informer(resources.DEVICE_TAINT_RULES, served=False),
        _informer(resources.RESOURCE_CLAIMS, served=True),
    ]
    assert absent_apis.find(informers) == [resources.DEVICE_TAINT_RULES]


def test_one_sentence_names_all_apis_and_each_purpose_once() -> None:
    absent = [resources.RESOURCE_CLAIMS, resources.RESOURCE_SLICES, resources.POD_GROUPS]
    assert absent_apis.sentence(absent) == (
        "not served by this API server: resource.k8s.io/v1/resourceclaims, resource.k8s.io/v1/resourceslices, "
        "scheduling.k8s.io/v1beta1/podgroups; off: dynamic resource allocation, pod groups"
    )


def test_every_optional_collection_has_a_purpose() -> None:
    """The log would say that nothing is off."""
    listed = [each for each in vars(resources).values() if isinstance(each, resources.Resource)]
    optional = [each for each in listed if each.optional]
    assert len(optional) > 4
    assert [each.kind for each in optional if not each.purpose] == []
