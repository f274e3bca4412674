"""What the frontend serves over HTTP: health, metrics, status and explanations."""
