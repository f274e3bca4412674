{{- /* Also change: internal/trireme_kube/client/informers/resources.py, deploy/chart/templates/roles/frontend.yaml,
     deploy/chart/templates/roles/bind.yaml,
     deploy/chart/templates/shadow-roles.yaml, docs/security.md (the rights of readers and of bind). */ -}}
{{/* A binding of a role to an account of the release. Arguments: root, name, role, service, and either namespace or
     cluster: true; own: false for a role that is not the release's. */}}
{{- define "trireme.binding" -}}
{{- $prefix := ternary "Cluster" "" (default false .cluster) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $prefix }}RoleBinding
{{ include "trireme.metadata" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $prefix }}Role
  name: {{ .role | default .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "trireme.fullname" .root }}-{{ .service }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{/* What decides about pods is read from these kinds of objects. */}}
{{- define "trireme.readRules" -}}
- apiGroups: [""]
  resources: [nodes, pods, namespaces, services, replicationcontrollers, persistentvolumes, persistentvolumeclaims]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets, statefulsets]
  verbs: [list, watch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [list, watch]
- apiGroups: [storage.k8s.io]
  resources: [storageclasses, csinodes, csidrivers, csistoragecapacities, volumeattachments]
  verbs: [list, watch]
- apiGroups: [resource.k8s.io]
  resources: [resourceslices, resourceclaims, deviceclasses, devicetaintrules]
  verbs: [list, watch]
{{- end }}

{{/* A feature gate that is on. Arguments: root, gate. */}}
{{- define "trireme.gate" -}}
{{- if get .root.Values.scheduler.featureGates .gate }}true{{ end -}}
{{- end }}
