"""CEL, the language of device selectors, with Kubernetes' semantics.

A CEL library parses and checks an expression against Kubernetes' declarations (`compiler.environment`); its checked
tree is decoded (`syntax`) and compiled to a program (`interpreter.planner`), which is evaluated here. The library's own
evaluation has neither Kubernetes' cost limit nor its error messages.

- `compiler`: compilation, the compiler's messages and further checks
- `interpreter`: programs, their evaluation, and what it costs
- `library`: operators, and all functions by name with their parameter types
- `values`: the types of values

Source: k8s.io/apiserver/pkg/cel, github.com/google/cel-go.
"""
