"""What a plugin is to the code that runs it: the extension points over columns, and its description of itself."""
