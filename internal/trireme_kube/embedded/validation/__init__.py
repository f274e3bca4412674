"""Rules that objects must obey, with the API server's messages; one module for each family of kinds."""
