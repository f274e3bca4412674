"""GroupSettings: the queue's settings for groups, and the functions that it calls for them."""

from collections.abc import Callable, Set
from dataclasses import dataclass

from trireme.queueing.groups.queued_group import QueuedPodGroupInfo


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The queue's settings for groups, and functions that it calls."""

    #: The profiles with the plugin of gangs at PreEnqueue: there a group waits until it has its minimum of members.
    gang_profiles: Set[str]
    #: Whether victims of the group (its `uid`) are still to be deleted.
    preempting: Callable[[str], bool]
    #: Called once for a group that lacks something for long, with what it waits for if it is not members.
    notify: Callable[[QueuedPodGroupInfo, str], None]
    #: Called with the UID of each PodGroup that is deleted.
    gone: Callable[[str], None]
    #: Groups may be made of groups.
    composite: bool = False
