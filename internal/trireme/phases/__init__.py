"""What the filter and the score process have in common: flags, the snapshot that they follow, metrics."""
