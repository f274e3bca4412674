"""From request bodies to objects: protobuf, and JSON checked against the declared types."""
