"""What the evaluators answer, as the scheduling cycle and HTTP extenders work with it."""
