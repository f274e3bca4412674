#!/usr/bin/env bash
# The verbs that people use most, one after the other: see run_clients.py. KUBECTL names the program.
set -euo pipefail
k() { "$KUBECTL" --namespace client-kubectl "$@"; }
"$KUBECTL" create namespace client-kubectl
k create deployment web --image=example.com/web --replicas=2
k rollout status deployment/web --timeout=60s
k expose deployment web --port=80 --target-port=8080
k get pods -o wide | grep -c Running | grep -Fx 2
k get endpointslices -l kubernetes.io/service-name=web -o 'jsonpath={.items[0].endpoints[1].conditions.ready}' | grep -Fx true
k scale deployment/web --replicas=3
k set image deployment/web web=example.com/web:2
k rollout status deployment/web --timeout=60s
k rollout history deployment/web
k rollout undo deployment/web
k rollout status deployment/web --timeout=60s
k describe deployment web | grep -F ScalingReplicaSet
k logs deployment/web | grep -F 'is simulated'
k label pods --all tier=front
k annotate deployment web note=seen
k patch deployment web --type=json -p '[{"op": "replace", "path": "/spec/replicas", "value": 1}]'
k wait --for='jsonpath={.status.replicas}=1' deployment/web --timeout=60s
k autoscale deployment web --min=1 --max=3 --cpu=50%
k create configmap settings --from-literal=a=b
k create configmap settings --from-literal=a=c --dry-run=client -o yaml | k apply --server-side --force-conflicts -f -
k get configmap settings -o 'jsonpath={.data.a}' | grep -Fx c
k create configmap settings --from-literal=a=d --dry-run=client -o yaml | { k diff -f - || true; } | grep -F '+  a: d'
k create job once --image=example.com/once
k wait --for=condition=Complete job/once --timeout=60s
k run brief --rm -i --restart=Never --image=example.com/brief --annotations=trireme.dev/run-seconds=1 | grep -F 'is simulated'
k explain pod.spec.nodeName | grep -F 'nodeName <string>'
k auth can-i create pods | grep -Fx yes
k api-resources | grep -F customresourcedefinitions
k events --for deployment/web | grep -F ScalingReplicaSet
if k exec deploy/web -- true 2>/tmp/clients-exec.$$; then exit 1; fi
grep -F 'the embedded cluster has no pods/exec' /tmp/clients-exec.$$ && rm /tmp/clients-exec.$$
node=$(k get pods -l app=web -o 'jsonpath={.items[0].spec.nodeName}')
"$KUBECTL" cordon "$node"
"$KUBECTL" drain "$node" --ignore-daemonsets --force --timeout=60s
"$KUBECTL" uncordon "$node"
k delete deployment web --cascade=orphan
k create deployment web --image=example.com/web
k rollout status deployment/web --timeout=60s
if "$KUBECTL" delete namespace kube-system; then exit 1; fi
"$KUBECTL" delete namespace client-kubectl --timeout=60s
