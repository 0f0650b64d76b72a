{{/* What README.md lists. All take your chart's root context. */}}

{{- define "callgate.sidecar.values" -}}
{{- $given := .Values.callgate | default (index .Values "callgate-sidecar") -}}
{{- if not $given -}}
{{- fail "callgate-sidecar is no dependency of this chart: add it to Chart.yaml, run helm dependency build" -}}
{{- end -}}
{{- toYaml $given -}}
{{- end -}}

{{- define "callgate.sidecar.image" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- if $v.image.digest -}}
{{ $v.image.repository }}@{{ $v.image.digest }}
{{- else -}}
{{ $v.image.repository }}:{{ $v.image.tag }}
{{- end -}}
{{- end -}}

{{- define "callgate.sidecar.configMapName" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- $v.existingConfigMap | default (printf "%s-callgate" (.Release.Name | trunc 54 | trimSuffix "-")) -}}
{{- end -}}

{{/* The configuration: what a pod asks for, then what the values say. */}}
{{- define "callgate.sidecar.config" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- $config := dict
  "listen" (dict
    "data" (printf "127.0.0.1:%v" $v.ports.data)
    "health" (printf "%s:%v" $v.ports.healthAddress $v.ports.health)
    "admin" "unix:/var/lib/callgate/admin.sock")
  "store" (dict "path" "/var/lib/callgate/callgate.db" "retention" (dict "calls" "7d" "events" "1d"))
  "idempotency" (dict "max_bytes" "64MiB")
  "dead_letters" (dict "max_bytes" "64MiB")
-}}
{{- if eq $v.mode "container" -}}
{{- $_ := set $config "shutdown" (dict "linger" "20s") -}}
{{- end -}}
{{- if eq $v.state.kind "emptyDir" -}}
{{- $_ := set $config "runs" (dict "enabled" false) -}}
{{- end -}}
{{- if $v.keys.secretName -}}
{{- $upstreams := dict -}}
{{- range $upstream, $file := $v.keys.upstreams -}}
{{- $key := dict "file" (printf "/etc/callgate-keys/%s" $file) -}}
{{- $_ := set $upstreams $upstream (dict "credentials" (list (dict "name" "main" "key" $key))) -}}
{{- end -}}
{{- if $upstreams -}}
{{- $_ := set $config "upstreams" $upstreams -}}
{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy $v.config)) -}}
{{- end -}}

{{- define "callgate.sidecar.container" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
- name: callgate
  image: {{ include "callgate.sidecar.image" . | quote }}
  imagePullPolicy: {{ $v.image.pullPolicy }}
  {{- if eq $v.mode "native" }}
  restartPolicy: Always
  {{- end }}
  args: [serve]
  env:
    - name: CALLGATE_CONFIG
      value: /etc/callgate/config.yaml
    - name: POD_NAME
      valueFrom:
        fieldRef:
          fieldPath: metadata.name
    - name: POD_NAMESPACE
      valueFrom:
        fieldRef:
          fieldPath: metadata.namespace
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
    {{- with $v.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - name: cg-metrics
      containerPort: {{ $v.ports.health }}
      protocol: TCP
  startupProbe:
    httpGet:
      path: /readyz
      port: cg-metrics
    periodSeconds: 1
    failureThreshold: 60
  livenessProbe:
    httpGet:
      path: /livez
      port: cg-metrics
    periodSeconds: 10
    failureThreshold: 3
  {{- if $v.readinessProbe }}
  readinessProbe:
    httpGet:
      path: /readyz
      port: cg-metrics
    periodSeconds: 5
    failureThreshold: 2
  {{- end }}
  lifecycle:
    preStop:
      exec:
        command: [/usr/bin/callgate, drain, --runs-only, --no-wait]
  {{- with $v.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    allowPrivilegeEscalation: false
    privileged: false
    readOnlyRootFilesystem: true
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
  volumeMounts:
    - name: callgate-config
      mountPath: /etc/callgate
      readOnly: true
    {{- if $v.keys.secretName }}
    - name: callgate-keys
      mountPath: /etc/callgate-keys
      readOnly: true
    {{- end }}
    - name: callgate-state
      mountPath: /var/lib/callgate
    - name: callgate-tmp
      mountPath: /tmp
    {{- with $v.extraVolumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* For initContainers: empty in mode container. */}}
{{- define "callgate.sidecar.initContainers" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- if eq $v.mode "native" -}}
{{ include "callgate.sidecar.container" . }}
{{- end -}}
{{- end -}}

{{/* For containers, behind your own: empty in mode native. */}}
{{- define "callgate.sidecar.containers" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- if eq $v.mode "container" -}}
{{ include "callgate.sidecar.container" . }}
{{- end -}}
{{- end -}}

{{- define "callgate.sidecar.volumes" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
- name: callgate-config
  configMap:
    name: {{ include "callgate.sidecar.configMapName" . | quote }}
{{- if $v.keys.secretName }}
- name: callgate-keys
  secret:
    secretName: {{ $v.keys.secretName | quote }}
    defaultMode: {{ $v.keys.defaultMode }}
{{- end }}
{{- if eq $v.state.kind "emptyDir" }}
- name: callgate-state
  emptyDir:
    sizeLimit: {{ $v.state.sizeLimit }}
{{- end }}
- name: callgate-tmp
  emptyDir:
    sizeLimit: 64Mi
{{- end -}}

{{/* For the env of your own containers. */}}
{{- define "callgate.sidecar.appEnv" -}}
{{- include "callgate.sidecar.appEnvLines" . | trim -}}
{{- end -}}

{{- define "callgate.sidecar.appEnvLines" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- if $v.app.baseUrls }}
- name: OPENAI_BASE_URL
  value: http://127.0.0.1:{{ $v.ports.data }}/openai/v1
- name: ANTHROPIC_BASE_URL
  value: http://127.0.0.1:{{ $v.ports.data }}/anthropic
- name: GOOGLE_GEMINI_BASE_URL
  value: http://127.0.0.1:{{ $v.ports.data }}/gemini
{{- end }}
{{- if $v.keys.secretName }}
{{- if hasKey $v.keys.upstreams "openai" }}
- name: OPENAI_API_KEY
  value: held-by-callgate
{{- end }}
{{- if hasKey $v.keys.upstreams "anthropic" }}
- name: ANTHROPIC_API_KEY
  value: held-by-callgate
{{- end }}
{{- if hasKey $v.keys.upstreams "gemini" }}
- name: GEMINI_API_KEY
  value: held-by-callgate
{{- end }}
{{- end }}
{{- end -}}

{{- define "callgate.sidecar.podLabels" -}}
callgate/sidecar: "true"
callgate/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "callgate.sidecar.podAnnotations" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes: {{ eq $v.state.kind "emptyDir" | ternary "callgate-state,callgate-tmp" "callgate-tmp" }}
{{- if $v.rollOnConfigChange }}
callgate/config-checksum: {{ include "callgate.sidecar.config" . | sha256sum | quote }}
{{- end }}
{{- if $v.metrics.annotations }}
prometheus.io/scrape: "true"
prometheus.io/path: /metrics
prometheus.io/port: {{ $v.ports.health | quote }}
{{- end }}
{{- end -}}

{{/* A document of its own; empty with existingConfigMap. */}}
{{- define "callgate.sidecar.configmap" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- if not $v.existingConfigMap -}}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ include "callgate.sidecar.configMapName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
  labels:
    app.kubernetes.io/name: callgate
    app.kubernetes.io/instance: {{ .Release.Name | quote }}
    app.kubernetes.io/component: sidecar
    app.kubernetes.io/managed-by: {{ .Release.Service }}
data:
  config.yaml: |
    {{- include "callgate.sidecar.config" . | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* A document of its own; empty unless metrics.podMonitor.enabled. */}}
{{- define "callgate.sidecar.podMonitor" -}}
{{- $v := include "callgate.sidecar.values" . | fromYaml -}}
{{- if $v.metrics.podMonitor.enabled -}}
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: {{ printf "%s-callgate" (.Release.Name | trunc 54 | trimSuffix "-") | quote }}
  namespace: {{ .Release.Namespace | quote }}
  labels:
    app.kubernetes.io/name: callgate
    app.kubernetes.io/instance: {{ .Release.Name | quote }}
    app.kubernetes.io/component: sidecar
    app.kubernetes.io/managed-by: {{ .Release.Service }}
    {{- with $v.metrics.podMonitor.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels:
      callgate/sidecar: "true"
      callgate/instance: {{ .Release.Name | quote }}
  podMetricsEndpoints:
    - port: cg-metrics
      path: /metrics
      interval: {{ $v.metrics.podMonitor.interval }}
{{- end -}}
{{- end -}}

{{/* For your NOTES.txt: what fits badly together. Takes {root: ., replicas: 3, gracePeriod: 30}. */}}
{{- define "callgate.sidecar.notes" -}}
{{- $v := include "callgate.sidecar.values" .root | fromYaml -}}
{{- $config := include "callgate.sidecar.config" .root | fromYaml -}}
{{- $shared := list -}}
{{- range $name, $tenant := $config.tenants | default dict -}}
{{- range $limit := list "daily_usd" "monthly_usd" "per_run_usd" -}}
{{- if hasKey ($tenant.budget | default dict) $limit -}}
{{- $shared = append $shared "budgets" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if hasKey $v.config "idempotency" -}}
{{- $shared = append $shared "idempotency" -}}
{{- end -}}
{{- if dig "runs" "enabled" true $config -}}
{{- $shared = append $shared "runs" -}}
{{- end -}}
{{- if and $shared (gt (int .replicas) 1) }}
WARNING: {{ $shared | uniq | join ", " }} hold per callgate, and with {{ .replicas }} replicas there are {{ .replicas }} of them: a budget is
granted {{ .replicas }} times, a job that is redelivered to another replica is paid again. Share one standalone instance
instead: the chart callgate beside this one, and its Service as base URL.
{{- end }}
{{- $drain := dig "shutdown" "drain" "25s" $config }}
{{- $scrape := dig "shutdown" "final_scrape" "0s" $config }}
{{- $needed := add 5 (include "callgate.sidecar.seconds" $drain | int) (include "callgate.sidecar.seconds" $scrape | int) }}
{{- if lt (int .gracePeriod) (int $needed) }}
WARNING: terminationGracePeriodSeconds {{ .gracePeriod }} is less than shutdown.drain ({{ $drain }}){{ if ne $scrape "0s" }}, shutdown.final_scrape ({{ $scrape }}){{ end }} and 5 s: calls in flight
will be cut off.
{{- end }}
{{- if eq $v.mode "container" }}
NOTE: in mode container callgate gets SIGTERM together with the application, and takes its last calls for
{{ dig "shutdown" "linger" "0s" $config }} (shutdown.linger); a Job does not complete.
{{- end }}
{{- end -}}

{{/* "25s", "2m" as seconds. */}}
{{- define "callgate.sidecar.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if eq $unit "ms" -}}{{ div (add $number 999) 1000 }}
{{- else if eq $unit "m" -}}{{ mul $number 60 }}
{{- else if eq $unit "h" -}}{{ mul $number 3600 }}
{{- else if eq $unit "d" -}}{{ mul $number 86400 }}
{{- else -}}{{ $number }}
{{- end -}}
{{- end -}}
