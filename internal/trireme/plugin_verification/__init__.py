"""The conformance kit for plugins that are services: what `trireme plugin verify` checks.

Each `Specification` is one requirement of the contract, with the sentence of the protos or of docs/protocol.md that
states it. Modules named `*_specifications.py` have them, one for each part of the contract; `verification.py` runs all
of them against one plugin. No cluster is needed: the requests are about nodes and pods of `sample_cluster.py`.
"""
