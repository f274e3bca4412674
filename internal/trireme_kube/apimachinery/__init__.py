"""The API's values and documents: quantities, versions, Go's text formats, strict YAML and JSON, objects as messages.

Source: k8s.io/apimachinery.
"""
