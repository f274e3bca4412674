"""The benchmark's driver: loads an API server with nodes and pods, and times a scheduler from outside.

It knows nothing of the scheduler under test but a command line. Workloads are read from YAML (`workload`, `template`),
carried out against an API server (`api`, `execution`) while the scheduler's processes are observed in /proc
(`processes`), and the times are made into figures (`figures`) and a report (`report`). `sides` says who competes.
"""
