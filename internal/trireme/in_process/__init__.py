"""Filter and score without services: for what runs the scheduler's decisions in one process."""
