"""What a plugin is to those that evaluate it: the extension points over columns, and how it describes itself."""
