"""CEL, the language of device selectors, as Kubernetes speaks it.

A CEL library parses and checks an expression against what Kubernetes declares (`environment`); what it found is read
(`syntax`) and made a program (`program`), which is evaluated here. An evaluation of the library's own knows neither
what a step costs, and so not where Kubernetes gives up, nor the words in which it says what went wrong.

- `outline`, `parts`: expressions that are deeper than the library reads at once
- `values`, `operators`, `times`: what values there are, and what can be done with all of them
- `texts`, `formatting`, `lists`, `networks`, `urls`, `formats`, `amounts`: the libraries of functions
- `functions`, `costs`: all functions by name with the types they are for, and what a call costs

Source: k8s.io/apiserver/pkg/cel, github.com/google/cel-go.
"""
