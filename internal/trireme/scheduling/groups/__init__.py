"""Pod groups: queued as one, tried as one, placed together or not at all."""
