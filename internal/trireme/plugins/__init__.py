"""The in-tree plugins, one file each, named as kube-scheduler names them."""
