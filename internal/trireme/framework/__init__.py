"""The vocabulary of the scheduling framework: statuses, events, quantities, what a plugin is."""
