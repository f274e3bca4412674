"""The vocabulary of the scheduling framework: statuses, cluster events, amounts, selectors."""
