"""What the API consists of: the table of resources, what clients read as refusals, quantities, selectors, schedules."""
