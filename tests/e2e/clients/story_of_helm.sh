#!/usr/bin/env bash
# Install, upgrade, test, roll back, uninstall: see run_clients.py. HELM names the program, CHART the chart.
set -euo pipefail
options=(--namespace client-helm)
"$HELM" install web "$CHART" "${options[@]}" --create-namespace --wait --timeout 60s
"$HELM" test web "${options[@]}" --timeout 60s --logs | grep -F 'is simulated'
"$HELM" upgrade web "$CHART" "${options[@]}" --set replicas=3 --wait --timeout 60s
[ "$("$KUBECTL" "${options[@]}" get deployment web -o 'jsonpath={.status.availableReplicas}')" = 3 ]
"$HELM" rollback web 1 "${options[@]}" --wait --timeout 60s
[ "$("$KUBECTL" "${options[@]}" get thing web -o 'jsonpath={.spec.replicas}')" = 2 ]
"$HELM" list "${options[@]}" | grep -F deployed
"$HELM" uninstall web "${options[@]}" --wait --timeout 60s
[ -z "$("$KUBECTL" "${options[@]}" get deployments,replicasets,services,ingresses,cronjobs -o name)" ]
