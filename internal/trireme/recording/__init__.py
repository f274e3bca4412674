"""Recordings of the snapshot stream: segment files, their writer and readers. The format is in docs/recording.md."""
