"""CEL, the language of device selectors, with Kubernetes' semantics.

A CEL library parses and checks an expression against Kubernetes' declarations (`environment`); its checked tree is
decoded (`syntax`) and compiled to a program (`program`), which is evaluated here. The library's own evaluation has
neither Kubernetes' cost limit nor its error messages.

- `nesting`, `deep_expressions`: expressions deeper than the library's limit
- `compiler_messages`, `arity_errors`, `validation`: the compiler's messages and further checks
- `values`, `operators`, `times`, `qualifiers`: types of values, operators and selections
- `string_functions`, `format_function`, `list_functions`, `networks`, `urls`, `named_formats`,
  `quantities_and_versions`: function libraries
- `functions`, `costs`: all functions by name with their parameter types, and the cost of a call

Source: k8s.io/apiserver/pkg/cel, github.com/google/cel-go.
"""
