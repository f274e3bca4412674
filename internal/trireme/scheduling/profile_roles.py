"""What the parts of scheduling know of the profiles: sets of names, which a reload of the configuration changes.

The parts hold these very sets, so that `replace`, called between two scheduling cycles, changes them for all at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from trireme.config import model
from trireme.plugin_api import placements


@dataclass(frozen=True, slots=True)
class ProfileRoles:
    """The profiles by what their plugins do. Each field is a set, or a dict, of profiles' names."""

    #: With Permit plugins that bind calls.
    permit: set[str]
    #: With remote plugins at PreBind.
    pre_bind: set[str]
    #: With remote plugins at PostBind.
    post_bind: set[str]
    #: With remote plugins at any point of the bind phase.
    remote: set[str]
    #: With remote plugins at Bind.
    remote_bind: set[str]
    #: Without remote plugins: their answers depend on nothing but the cluster.
    speculating: set[str]
    #: With PostFilter plugins, and whether their evictions are asynchronous.
    post_filter: dict[str, bool]
    #: Whose pods wait until a minimum of their group is there, and those to whose groups the minimum applies.
    gang_pre_enqueue: set[str]
    gang: set[str]
    #: Their plugin at PlacementGenerate, those at PlacementScore, and the names of those at PodGroupPostFilter; empty
    #: where there are no pod groups.
    placement_generators: dict[str, placements.PlacementGeneratePlugin] = field(default_factory=dict)
    placement_scorers: dict[str, Sequence[model.Plugin]] = field(default_factory=dict)
    group_post_filters: dict[str, Sequence[str]] = field(default_factory=dict)

    def replace(self, new: "ProfileRoles") -> None:
        """Make this equal to `new`, in the sets that others hold."""
        for each in fields(self):
            held, wanted = getattr(self, each.name), getattr(new, each.name)
            held.clear()
            held.update(wanted)
