"""Tests, by how much of the product they run, and the helpers that they share. What measures or breaks is in tools/."""
