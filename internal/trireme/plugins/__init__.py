"""The in-tree plugins, a folder for each, named as kube-scheduler names them; `spec.py` declares it."""
