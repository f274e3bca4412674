"""Reviews of tokens and access: the embedded cluster allows everything, and says so in the form of the API server."""

import pytest

from trireme_kube.embedded.registry import reviews


@pytest.mark.parametrize("review", reviews.REVIEWS, ids=lambda review: review.kind)
def test_every_review_is_found_at_its_path_and_answered_with_a_status(review: reviews.Review) -> None:
    namespace = "namespaces/ns/" if review.namespaced else ""
    assert reviews.review_at(f"/apis/{review.group}/{review.version}/{namespace}{review.plural}") is review
    reply = reviews.reply_to(review, {"spec": {"audiences": ["a"]}})
    assert (reply["kind"], reply["apiVersion"]) == (review.kind, f"{review.group}/{review.version}")
    assert reply["status"]


@pytest.mark.parametrize("path", ["/api/v1/pods", "/apis/apps/v1/deployments", "/apis/authorization.k8s.io/v1"])
def test_other_paths_are_no_reviews(path: str) -> None:
    assert reviews.review_at(path) is None
