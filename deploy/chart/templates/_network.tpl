{{- /* Also change: deploy/chart/templates/network-policies.yaml (which process calls which). */ -}}
{{/* Who may call a service: frontends, and for its metrics the namespace that monitors. */}}
{{- define "trireme.ingressOfService" -}}
- from:
    - podSelector:
        matchLabels:
          app.kubernetes.io/name: {{ include "trireme.fullname" . }}-frontend
  ports:
    - port: grpc
- from:
    - namespaceSelector:
        matchLabels:
          kubernetes.io/metadata.name: {{ .Values.networkPolicies.monitoringNamespace }}
  ports:
    - port: metrics
{{- end }}

{{/* The API server and the cluster's DNS; a policy cannot know the API server's address. */}}
{{- define "trireme.egressToApiServer" -}}
- ports:
    - port: 443
    - port: 6443
    - port: 53
      protocol: UDP
    - port: 53
{{- end }}

{{- define "trireme.egressToPlugins" -}}
{{- with without (splitList " " (include "trireme.pluginServices" .)) "" }}
- to:
    - podSelector:
        matchExpressions:
          - key: app.kubernetes.io/name
            operator: In
            values:
              {{- range . }}
              - {{ include "trireme.fullname" $ }}-{{ . }}
              {{- end }}
  ports:
    - port: grpc
{{- end }}
{{- with .Values.networkPolicies.egress }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}
