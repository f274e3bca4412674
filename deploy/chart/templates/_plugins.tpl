{{- /* Also change: internal/trireme/config/trireme_configuration.py, deploy/chart/templates/_helpers.tpl,
     internal/trireme/config/remote_plugin_settings.py,
     internal/trireme/config/service_tls.py (fields of TriremeConfiguration). */ -}}
{{/* The name of a plugin's Deployment after the release's, in the form of Kubernetes. Arguments: the plugin. */}}
{{- define "trireme.pluginService" -}}
plugin-{{ kebabcase .name }}
{{- end }}

{{/* Those of all plugins that run as Deployments, separated by spaces. */}}
{{- define "trireme.pluginServices" -}}
{{- $services := list -}}
{{- if ne .Values.mode "shadow" -}}
{{- range .Values.plugins -}}
{{- if eq .run "deployment" -}}
{{- $services = append $services (include "trireme.pluginService" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- join " " $services -}}
{{- end }}

{{/* The `plugins` of the profile. */}}
{{- define "trireme.enabledPlugins" -}}
{{- $points := dict -}}
{{- range $plugin := .Values.plugins -}}
{{- range $point := .extensionPoints -}}
{{- $entry := dict "name" $plugin.name -}}
{{- if and (eq $point "score") $plugin.weight -}}
{{- $_ := set $entry "weight" $plugin.weight -}}
{{- end -}}
{{- $enabled := (get $points $point | default dict).enabled | default list -}}
{{- $_ := set $points $point (dict "enabled" (append $enabled $entry)) -}}
{{- end -}}
{{- end -}}
{{- toYaml $points -}}
{{- end }}

{{/* The `remotePlugins` of the TriremeConfiguration. */}}
{{- define "trireme.remotePlugins" -}}
{{- $root := . -}}
{{- $all := list -}}
{{- range .Values.plugins -}}
{{- $own := dict "name" .name "extensionPoints" .extensionPoints -}}
{{- if eq .run "sidecar" -}}
{{- $_ := set $own "address" (printf "unix:/run/trireme-plugin/%s.sock" (kebabcase .name)) -}}
{{- else if eq .run "deployment" -}}
{{- $name := printf "%s-%s" (include "trireme.fullname" $root) (include "trireme.pluginService" .) -}}
{{- $folder := "/etc/trireme/tls" -}}
{{- $_ := set $own "address" (printf "endpointslice:///%s/%s:grpc" $root.Release.Namespace $name) -}}
{{- $tls := dict "certFile" (printf "%s/tls.crt" $folder) "keyFile" (printf "%s/tls.key" $folder) "caFile" (printf "%s/ca.crt" $folder) -}}
{{- $_ := set $tls "allowedIdentities" (list (printf "%s.%s.svc" $name $root.Release.Namespace)) -}}
{{- $_ := set $own "tls" $tls -}}
{{- else -}}
{{- $_ := set $own "address" .address -}}
{{- end -}}
{{- $all = append $all (mergeOverwrite $own (deepCopy (.settings | default dict))) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end }}

{{- define "trireme.pluginResources" -}}
{{- toYaml (.resources | default (dict "requests" (dict "cpu" "50m" "memory" "64Mi") "limits" (dict "memory" "256Mi"))) -}}
{{- end }}

{{/* The plugins beside a service. They start before it, and are restarted alone. Bind calls plugins of its own extension
     points, the others any. Arguments: root, service. */}}
{{- define "trireme.sidecars" -}}
{{- $root := .root -}}
{{- $bind := eq .service "bind" -}}
{{- range $root.Values.plugins }}
{{- $called := or (not $bind) (gt (len (without .extensionPoints "preEnqueue" "queueSort" "preFilter" "filter" "postFilter" "preScore" "score" "placementFeasible")) 0) }}
{{- if and (eq .run "sidecar") $called }}
- name: plugin-{{ kebabcase .name }}
  image: {{ .image }}
  restartPolicy: Always
  args:
    - --listen
    - unix:/run/trireme-plugin/{{ kebabcase .name }}.sock
    {{- range .args }}
    - {{ . | quote }}
    {{- end }}
  resources:
    {{- include "trireme.pluginResources" . | nindent 4 }}
  {{- include "trireme.containerSecurity" $root | nindent 2 }}
  volumeMounts:
    {{- include "trireme.sidecarMount" $root | nindent 4 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "trireme.sidecarMount" -}}
- name: plugin
  mountPath: /run/trireme-plugin
{{- end }}

{{- define "trireme.sidecarVolume" -}}
- name: plugin
  emptyDir:
    medium: Memory
    sizeLimit: 16Mi
{{- end }}
