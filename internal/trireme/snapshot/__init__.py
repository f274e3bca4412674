"""The columnar cluster snapshot that filter and score evaluate, and that the frontend streams to them."""
