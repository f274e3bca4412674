{{- /* Also change: deploy/chart/templates/config.yaml (the files that processes read). */ -}}
{{- /* Also change: internal/trireme/config/trireme_configuration.py, deploy/chart/templates/_plugins.tpl,
     internal/trireme/config/remote_plugin_settings.py,
     internal/trireme/config/service_tls.py (fields of TriremeConfiguration). */ -}}
{{/* The beginning of all names. */}}
{{- define "trireme.fullname" -}}
{{- $own := ternary .Release.Name (printf "%s-trireme" .Release.Name) (contains "trireme" .Release.Name) -}}
{{- .Values.fullnameOverride | default $own | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Labels of every object. */}}
{{- define "trireme.labels" -}}
app.kubernetes.io/part-of: trireme
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* Metadata of an object. Arguments: root, name, and optional namespace, or cluster: true. */}}
{{- define "trireme.metadata" -}}
metadata:
  name: {{ .name }}
  {{- if not .cluster }}
  namespace: {{ .namespace | default .root.Release.Namespace }}
  {{- end }}
  labels:
    {{- if .selected }}
    app.kubernetes.io/name: {{ .name }}
    {{- end }}
    {{- include "trireme.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{- define "trireme.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "trireme.split" -}}
{{- if eq .Values.mode "split" }}true{{ end -}}
{{- end }}

{{- define "trireme.schedules" -}}
{{- if ne .Values.mode "shadow" }}true{{ end -}}
{{- end }}

{{- define "trireme.insight" -}}
{{- if and (ne .Values.mode "shadow") .Values.insight.enabled }}true{{ end -}}
{{- end }}

{{/* The services that present certificates to each other, separated by spaces; none where all is in one pod. */}}
{{- define "trireme.services" -}}
{{- $services := list -}}
{{- if include "trireme.split" . -}}
{{- $services = list "frontend" "filter" "score" "bind" -}}
{{- else if or (include "trireme.insight" .) (include "trireme.pluginServices" .) -}}
{{- $services = list "frontend" -}}
{{- end -}}
{{- if include "trireme.insight" . -}}
{{- $services = append $services "insight" -}}
{{- end -}}
{{- join " " $services -}}
{{- end }}

{{/* The SPIFFE identity of a service. Arguments: root, service. */}}
{{- define "trireme.identity" -}}
{{- $root := .root -}}
spiffe://{{ $root.Values.certificates.trustDomain }}/ns/{{ $root.Release.Namespace }}/sa/{{ include "trireme.fullname" $root }}-{{ .service }}
{{- end }}

{{/* The KubeSchedulerConfiguration: the chart's with what values have, which may move the Lease. */}}
{{- define "trireme.schedulerConfiguration" -}}
{{- $values := .Values.scheduler -}}
{{- $lease := dict "leaderElect" true "resourceName" (include "trireme.fullname" .) "resourceNamespace" .Release.Namespace -}}
{{- $profile := dict "schedulerName" $values.name -}}
{{- if $values.default -}}
{{- $lease = dict "leaderElect" true "resourceName" "kube-scheduler" "resourceNamespace" "kube-system" -}}
{{- $profile = dict "schedulerName" "default-scheduler" -}}
{{- end -}}
{{- with (include "trireme.enabledPlugins" . | fromYaml) -}}
{{- $_ := set $profile "plugins" . -}}
{{- end -}}
{{- $own := dict "apiVersion" "kubescheduler.config.k8s.io/v1" "kind" "KubeSchedulerConfiguration" -}}
{{- $own = merge $own (dict "leaderElection" $lease "profiles" (list $profile)) -}}
{{- $merged := mergeOverwrite $own (deepCopy $values.configuration) -}}
{{- range $index, $plugin := .Values.plugins -}}
{{- $enabled := list -}}
{{- range $merged.profiles -}}
{{- range .plugins -}}
{{- range .enabled -}}
{{- $enabled = append $enabled .name -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (has $plugin.name $enabled) -}}
{{- fail (printf "plugins[%d]: %s is enabled in no profile of scheduler.configuration: enable it in one" $index $plugin.name) -}}
{{- end -}}
{{- end -}}
{{- toYaml $merged -}}
{{- end }}

{{/* The name of the first profile. */}}
{{- define "trireme.schedulerName" -}}
{{- (first (include "trireme.schedulerConfiguration" . | fromYaml).profiles | default dict).schedulerName | default "default-scheduler" -}}
{{- end }}

{{/* Refuses profiles that do not fit the Lease: ordinary pods would have no scheduler, or two. One without a name, and
the one of an empty list, is default-scheduler's. */}}
{{- define "trireme.checkProfiles" -}}
{{- $names := list -}}
{{- range (include "trireme.schedulerConfiguration" . | fromYaml).profiles -}}
{{- $names = append $names (.schedulerName | default "default-scheduler") -}}
{{- end -}}
{{- $found := or (not $names) (has "default-scheduler" $names) -}}
{{- $path := ternary "scheduler.configuration.profiles" "scheduler.name" (hasKey .Values.scheduler.configuration "profiles") -}}
{{- if and .Values.scheduler.default (not $found) -}}
{{- fail (printf "%s: none is named default-scheduler, though scheduler.default is true: name one so, or set it to false (deploy/chart/README.md#values)" $path) -}}
{{- else if and $found (not .Values.scheduler.default) -}}
{{- fail (printf "%s: one is named default-scheduler, or has no name, though scheduler.default is false: name it otherwise, or set it to true (deploy/chart/README.md#values)" $path) -}}
{{- end -}}
{{- end }}

{{/* Namespace and name of the Lease, as the configuration has them. */}}
{{- define "trireme.lease" -}}
{{- toYaml (include "trireme.schedulerConfiguration" . | fromYaml).leaderElection -}}
{{- end }}

{{/* Where a service is and who it is, in the TriremeConfiguration. Arguments: root, service. */}}
{{- define "trireme.endpoint" -}}
{{- $name := printf "%s-%s" (include "trireme.fullname" .root) .service -}}
{{- $namespace := .root.Release.Namespace -}}
endpoints: ["endpointslice:///{{ $namespace }}/{{ $name }}:grpc"]
allowedIdentities: [{{ $name }}.{{ $namespace }}.svc]
{{- end }}

{{- define "trireme.triremeConfiguration" -}}
{{- $root := . -}}
{{- $own := dict "apiVersion" "trireme.dev/v1alpha1" "kind" "TriremeConfiguration" -}}
{{- $_ := set $own "admin" (dict "socket" "/tmp/trireme-admin.sock") -}}
{{- if include "trireme.split" . -}}
{{- $phases := dict -}}
{{- range list "filter" "score" "bind" -}}
{{- $_ := set $phases . (include "trireme.endpoint" (dict "root" $root "service" .) | fromYaml) -}}
{{- end -}}
{{- $_ := set $own "phases" $phases -}}
{{- end -}}
{{- if include "trireme.insight" . -}}
{{- $_ := set $own "insight" (include "trireme.endpoint" (dict "root" . "service" "insight") | fromYaml) -}}
{{- end -}}
{{- if include "trireme.services" . -}}
{{- $folder := "/etc/trireme/tls" -}}
{{- $_ := set $own "tls" (dict "certFile" (printf "%s/tls.crt" $folder) "keyFile" (printf "%s/tls.key" $folder) "caFile" (printf "%s/ca.crt" $folder)) -}}
{{- end -}}
{{- with (include "trireme.remotePlugins" . | fromYamlArray) -}}
{{- $_ := set $own "remotePlugins" . -}}
{{- end -}}
{{- toYaml (mergeOverwrite $own (deepCopy .Values.scheduler.trireme)) -}}
{{- end }}
