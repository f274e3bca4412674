"""The functions and operators that expressions may use."""
