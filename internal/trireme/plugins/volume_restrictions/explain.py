"""The reasons of VolumeRestrictions' refusals in words."""

TEXTS = {"claimNotFound": "there is no claim {claim}"}
