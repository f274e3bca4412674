"""Pod groups: queued as one, tried as one, and placed together or not at all."""
