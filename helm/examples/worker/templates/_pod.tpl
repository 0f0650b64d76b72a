{{- define "worker.pod" -}}
metadata:
  labels:
    app.kubernetes.io/name: worker
    app.kubernetes.io/instance: {{ .Release.Name | quote }}
    {{- include "callgate.sidecar.podLabels" . | nindent 4 }}
  annotations:
    {{- include "callgate.sidecar.podAnnotations" . | nindent 4 }}
spec:
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  automountServiceAccountToken: false
  {{- if ne .Values.kind "Deployment" }}
  restartPolicy: Never
  {{- end }}
  {{- with include "callgate.sidecar.initContainers" . }}
  initContainers:
    {{- . | nindent 4 }}
  {{- end }}
  containers:
    - name: worker
      image: {{ .Values.image | quote }}
      {{- with .Values.args }}
      args:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "callgate.sidecar.appEnv" . }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      {{- with .Values.securityContext }}
      securityContext:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    {{- with include "callgate.sidecar.containers" . }}
    {{- . | nindent 4 }}
    {{- end }}
  volumes:
    {{- include "callgate.sidecar.volumes" . | nindent 4 }}
{{- end -}}
