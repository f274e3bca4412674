"""What several in-tree plugins are built from: volumes and claims, the use of resources."""
