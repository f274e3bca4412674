"""Recording events about objects: series, aggregation, texts, and their writes."""
