"""A plugin for the end-to-end tests: groups of pods may be in rack b alone, and filters nothing."""

from trireme import sdk


class RackLicences:
    """Refuses a group every rack but b."""

    info = sdk.Info("RackLicences", events=(sdk.Event("Node", "Add", "UpdateNodeLabel"),))

    def placement_feasible(self, call: sdk.Call, trial: sdk.PlacementTrial) -> sdk.Status | None:
        """Whether the rack has a licence, once as many pods fit as have to."""
        if trial.placement != "b":
            return sdk.unschedulable("no licence in this rack")
        missing = trial.min_count - trial.scheduled
        return sdk.more_members(f"{missing} more") if missing > 0 else None


if __name__ == "__main__":
    raise SystemExit(sdk.main(RackLicences()))
