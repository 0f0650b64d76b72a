{{- define "callgate.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "callgate.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "callgate.labels" -}}
{{ include "callgate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: standalone
app.kubernetes.io/part-of: callgate
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "callgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "callgate.configMapName" -}}
{{- .Values.existingConfigMap | default (include "callgate.fullname" .) -}}
{{- end -}}

{{- define "callgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "callgate.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* "true" if callgate may listen for other pods: unknown tenants are refused, and there is an issued key. */}}
{{- define "callgate.exposed" -}}
{{- $keyed := false -}}
{{- range $name, $tenant := .Values.config.tenants | default dict -}}
{{- if ($tenant | default dict).keys -}}
{{- $keyed = true -}}
{{- end -}}
{{- end -}}
{{- if and $keyed (eq (dig "tenancy" "unknown" "refuse" .Values.config) "refuse") -}}
true
{{- end -}}
{{- end -}}

{{/* The configuration: what a pod asks for, then what the values say. */}}
{{- define "callgate.config" -}}
{{- $name := include "callgate.fullname" . -}}
{{- $exposed := eq (include "callgate.exposed" .) "true" -}}
{{- $hosts := list "localhost" "127.0.0.1" "[::1]" -}}
{{- if $exposed -}}
{{- $svc := printf "%s.%s.svc" $name .Release.Namespace -}}
{{- $hosts = concat $hosts (list $name (printf "%s.%s" $name .Release.Namespace) $svc (printf "%s.%s" $svc .Values.clusterDomain)) -}}
{{- end -}}
{{- $config := dict
  "listen" (dict
    "data" ($exposed | ternary (printf "%s:4600" .Values.address) "127.0.0.1:4600")
    "health" (printf "%s:4601" .Values.address)
    "admin" "unix:/var/lib/callgate/admin.sock"
    "hosts" (concat $hosts .Values.extraHosts))
  "store" (dict "path" "/var/lib/callgate/callgate.db")
  "idempotency" (dict "max_bytes" "128MiB")
-}}
{{- if $exposed -}}
{{- $_ := set $config "tenancy" (dict "unknown" "refuse") -}}
{{- end -}}
{{- if not .Values.persistence.enabled -}}
{{- $_ := set $config "runs" (dict "enabled" false) -}}
{{- end -}}
{{- if .Values.keys.secretName -}}
{{- $upstreams := dict -}}
{{- range $upstream, $file := .Values.keys.upstreams -}}
{{- $key := dict "file" (printf "/etc/callgate-keys/%s" $file) -}}
{{- $_ := set $upstreams $upstream (dict "credentials" (list (dict "name" "main" "key" $key))) -}}
{{- end -}}
{{- if $upstreams -}}
{{- $_ := set $config "upstreams" $upstreams -}}
{{- end -}}
{{- with .Values.keys.payloadKey -}}
{{- $_ := set $config.store "payload_key" (dict "file" (printf "/etc/callgate-keys/%s" .)) -}}
{{- end -}}
{{- end -}}
{{- toYaml (mergeOverwrite $config (deepCopy .Values.config)) -}}
{{- end -}}

{{/* "25s", "2m" as seconds. */}}
{{- define "callgate.seconds" -}}
{{- $number := regexFind "^[0-9]+" . | int -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- if eq $unit "ms" -}}{{ div (add $number 999) 1000 }}
{{- else if eq $unit "m" -}}{{ mul $number 60 }}
{{- else if eq $unit "h" -}}{{ mul $number 3600 }}
{{- else if eq $unit "d" -}}{{ mul $number 86400 }}
{{- else -}}{{ $number }}
{{- end -}}
{{- end -}}
