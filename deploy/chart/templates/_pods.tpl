{{- /* Also change: internal/trireme/cli/cluster_connection.py (names and labels of pods). */ -}}
{{- /* Also change: deploy/chart/templates/frontend.yaml, deploy/chart/templates/filter.yaml,
     deploy/chart/templates/score.yaml, deploy/chart/templates/bind.yaml, deploy/chart/templates/insight.yaml,
     deploy/chart/templates/shadow.yaml, internal/trireme/phases/process_flags.py, internal/trireme/bind/flags.py,
     internal/trireme/insight/flags.py, internal/trireme/shadow/flags.py,
     internal/trireme/config/command_flags.py (the flags of the processes). */ -}}
{{/* The beginning of a pod's spec. Arguments: root, service, token (whether it has one), critical (its priority). */}}
{{- define "trireme.pod" -}}
{{- $pods := .root.Values.pods -}}
{{- $name := printf "%s-%s" (include "trireme.fullname" .root) .service -}}
serviceAccountName: {{ $name }}
{{- if .token }}
automountServiceAccountToken: true
{{- end }}
{{- if and .critical $pods.priorityClassName }}
priorityClassName: {{ $pods.priorityClassName }}
{{- end }}
terminationGracePeriodSeconds: 30
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with $pods.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $pods.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $spread := .spread | default false | ternary $pods.topologySpread.keys list }}
{{- $affinity := deepCopy $pods.affinity }}
{{- $hard := eq $pods.topologySpread.whenUnsatisfiable "DoNotSchedule" }}
{{- if and $spread (not $hard) (not $affinity.podAntiAffinity) }}
{{- /* A spread constraint with `ScheduleAnyway` passes over nodes that lack one of the labels: these have no zone. */}}
{{- $preferred := list }}
{{- range $spread }}
{{- $term := dict "topologyKey" . "labelSelector" (dict "matchLabels" (dict "app.kubernetes.io/name" $name)) }}
{{- /* Pods of the release before do not count: their places are free once a rollout has ended. */}}
{{- $_ := set $term "matchLabelKeys" (list "pod-template-hash") }}
{{- $preferred = append $preferred (dict "weight" 100 "podAffinityTerm" $term) }}
{{- end }}
{{- $_ := set $affinity "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" $preferred) }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and $spread $hard }}
topologySpreadConstraints:
  {{- range $spread }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: DoNotSchedule
    labelSelector:
      matchLabels:
        app.kubernetes.io/name: {{ $name }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end }}

{{/* Labels and annotations of pods. Arguments: root, name, checksum (of the configuration that rolls them). */}}
{{- define "trireme.podMetadata" -}}
{{- $pods := .root.Values.pods -}}
metadata:
  labels:
    app.kubernetes.io/name: {{ .name }}
    app.kubernetes.io/part-of: trireme
    {{- with $pods.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- if or .checksum $pods.annotations }}
  annotations:
    {{- with .checksum }}
    checksum/config: {{ . }}
    {{- end }}
    {{- with $pods.annotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end }}

{{/* What no container of ours may do. */}}
{{- define "trireme.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- define "trireme.containerImage" -}}
image: {{ include "trireme.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{/* Flags of services that frontends call. Arguments: root, service, port. */}}
{{- define "trireme.serviceFlags" -}}
- --listen=0.0.0.0:{{ .port }}
- --metrics-listen=0.0.0.0:8080
- --tls-cert-file=/etc/trireme/tls/tls.crt
- --tls-private-key-file=/etc/trireme/tls/tls.key
- --client-ca-file=/etc/trireme/tls/ca.crt
- --allowed-identities={{ include "trireme.identity" (dict "root" .root "service" "frontend") }}
{{- end }}

{{- define "trireme.serviceProbes" -}}
startupProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet:
    path: /healthz
    port: metrics
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
# Ready once it follows a leading frontend; bind, once it knows one.
readinessProbe:
  httpGet:
    path: /readyz
    port: metrics
  periodSeconds: 5
{{- end }}

{{- define "trireme.rollingUpdate" -}}
strategy:
  rollingUpdate:
    maxSurge: 1
    maxUnavailable: 0
{{- end }}

{{/* The Deployment and the Service of filter, score or bind. Arguments: root, service, port. */}}
{{- define "trireme.phase" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "trireme.fullname" $root) .service -}}
{{- $values := index $root.Values .service -}}
{{- $bind := eq .service "bind" -}}
{{- $sidecars := include "trireme.sidecars" (dict "root" $root "service" .service) -}}
apiVersion: apps/v1
kind: Deployment
{{ include "trireme.metadata" (dict "root" $root "name" $name "selected" true) }}
spec:
  {{- if not $values.autoscaling.enabled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  selector:
    matchLabels:
      app.kubernetes.io/name: {{ $name }}
  {{- include "trireme.rollingUpdate" $root | nindent 2 }}
  template:
    {{- include "trireme.podMetadata" (dict "root" $root "name" $name) | nindent 4 }}
    spec:
      {{- include "trireme.pod" (dict "root" $root "service" .service "token" $bind "critical" true "spread" true) | nindent 6 }}
      {{- with $sidecars }}
      initContainers:
        {{- . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .service }}
          {{- include "trireme.containerImage" $root | nindent 10 }}
          command:
            - trireme-{{ .service }}
            {{- include "trireme.serviceFlags" . | nindent 12 }}
            {{- if $bind }}
            {{- $lease := include "trireme.lease" $root | fromYaml }}
            - --leader-elect-resource-name={{ $lease.resourceName }}
            - --leader-elect-resource-namespace={{ $lease.resourceNamespace }}
            {{- end }}
            - --logging-format=json
            {{- range $values.args }}
            - {{ . | quote }}
            {{- end }}
          {{- with $values.env }}
          env:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          ports:
            - name: grpc
              containerPort: {{ .port }}
            - name: metrics
              containerPort: 8080
          {{- include "trireme.serviceProbes" $root | nindent 10 }}
          resources:
            {{- toYaml $values.resources | nindent 12 }}
          {{- include "trireme.containerSecurity" $root | nindent 10 }}
          volumeMounts:
            - name: tls
              mountPath: /etc/trireme/tls
              readOnly: true
            {{- if $sidecars }}
            {{- include "trireme.sidecarMount" $root | nindent 12 }}
            {{- end }}
      volumes:
        - name: tls
          secret:
            secretName: {{ $name }}-tls
            defaultMode: 0440
        {{- if $sidecars }}
        {{- include "trireme.sidecarVolume" $root | nindent 8 }}
        {{- end }}
---
{{ include "trireme.service" . }}
{{- end }}

{{/* Headless: the frontend follows its EndpointSlices and calls each replica by itself. Addresses are published before
     the replica is ready, because it becomes ready when the frontend connects. Arguments: root, service, port, https. */}}
{{- define "trireme.service" -}}
{{- $name := printf "%s-%s" (include "trireme.fullname" .root) .service -}}
apiVersion: v1
kind: Service
{{ include "trireme.metadata" (dict "root" .root "name" $name "selected" true) }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    app.kubernetes.io/name: {{ $name }}
  ports:
    - name: grpc
      port: {{ .port }}
      targetPort: grpc
    - name: metrics
      port: 8080
      targetPort: metrics
    {{- if .https }}
    - name: https
      port: {{ .https }}
      targetPort: https
    {{- end }}
{{- end }}
