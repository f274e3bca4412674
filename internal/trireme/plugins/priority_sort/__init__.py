"""PrioritySort: orders the queue by priority, and pods of one priority by when they arrived."""
