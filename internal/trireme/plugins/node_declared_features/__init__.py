"""NodeDeclaredFeatures: refuses nodes whose kubelet does not declare the features that a pod needs."""
