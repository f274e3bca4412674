"""GangScheduling: holds pods of a group until as many have arrived as it requires."""
