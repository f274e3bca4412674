"""What the server serves, as clients learn it: groups, versions, resources and OpenAPI documents."""
