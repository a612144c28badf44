{{- define "sluice.name" -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "sluice.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{ .Values.serviceAccount.name }}
{{- else if .Values.serviceAccount.create -}}
{{ include "sluice.name" . }}
{{- else -}}
default
{{- end -}}
{{- end -}}

{{- define "sluice.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* The job file, and what must hold between it and the pod. */}}
{{- define "sluice.job" -}}
{{- $job := fromYaml .Values.job -}}
{{- if hasKey $job "Error" -}}
{{- fail (printf "job is no YAML: %s" $job.Error) -}}
{{- end -}}
{{- $grace := get $job "grace-period" | default "25s" -}}
{{- if not (regexMatch "^[0-9]+s$" $grace) -}}
{{- fail (printf "grace-period %q: write it in seconds, such as 25s, so that it can be compared" $grace) -}}
{{- end -}}
{{- if ge (trimSuffix "s" $grace | int) (int .Values.terminationGracePeriodSeconds) -}}
{{- fail (printf "terminationGracePeriodSeconds (%d) has to be longer than the job's grace-period (%s), or workers are killed before they have finished" (int .Values.terminationGracePeriodSeconds) $grace) -}}
{{- end -}}
{{- if not (dig "observe" "listen" "" $job) -}}
{{- fail "the job needs observe.listen, which the probes ask: \":9090\", or \"${LISTEN:-localhost:9090}\" with the image's LISTEN" -}}
{{- end -}}
{{ .Values.job }}
{{- end -}}

{{/* A pod of a worker. */}}
{{- define "sluice.pod" -}}
metadata:
  labels:
    {{- include "sluice.labels" .root | nindent 4 }}
    {{- with .root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # A new job file makes new pods.
    checksum/job: {{ .root.Values.job | sha256sum }}
    {{- with .root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "sluice.serviceAccount" .root }}
  # Nothing here speaks to the cluster.
  automountServiceAccountToken: false
  restartPolicy: {{ .restartPolicy }}
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  enableServiceLinks: false
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .root.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "sluice.selector" .root | nindent 10 }}
  {{- with .root.Values.model.url }}
  initContainers:
    - name: model
      image: {{ $.root.Values.model.client }}
      command: [/bin/sh, -euc]
      # SHA256SUMS names the files, and the chart's values say what it has to be. The folder gets its name when all is there and right, so
      # that pods that share a cache need not wait for each other. The client's image has no tar.
      args:
        - |
          [ ! -d "/cache/$SHA256" ] || exit 0
          work=$(mktemp -d "/cache/.$SHA256.XXXXXX")
          trap 'rm -rf "$work"' EXIT
          cd "$work"
          aws s3 cp --no-progress "${URL}SHA256SUMS" SHA256SUMS
          echo "$SHA256  SHA256SUMS" | sha256sum -c -
          while read -r sum name; do
            name=${name#\*}
            mkdir -p "$(dirname "$name")"
            aws s3 cp --no-progress "$URL$name" "$name" </dev/null
          done <SHA256SUMS
          sha256sum -c SHA256SUMS
          chmod -R a+rX "$work"
          mv -T "$work" "/cache/$SHA256" || [ -d "/cache/$SHA256" ]
      env:
        - {name: URL, value: {{ . | quote }}}
        - {name: SHA256, value: {{ $.root.Values.model.sha256 | quote }}}
        - {name: HOME, value: /tmp}
      securityContext: {{- include "sluice.securityContext" $ | nindent 8 }}
      resources:
        requests: {cpu: 100m, memory: 256Mi}
        limits: {memory: 512Mi}
      volumeMounts:
        - {name: model, mountPath: /cache}
        - {name: tmp, mountPath: /tmp}
  {{- end }}
  containers:
    - name: sluice
      image: {{ include "sluice.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: [run, /etc/sluice/job/job.yml]
      env:
        - {name: GOMEMLIMIT, value: {{ printf "%dMiB" (div (mul .root.Values.memoryMiB 4) 5) }}}
        - name: HOSTNAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- if .completions }}
        # How many parts there are; Kubernetes tells only which one this is.
        - {name: JOB_COMPLETIONS, value: {{ .completions | quote }}}
        {{- end }}
        {{- with .root.Values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with .root.Values.envFrom }}
      envFrom: {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - {name: metrics, containerPort: 9090}
      resources:
        requests:
          cpu: {{ .root.Values.cpu | quote }}
          memory: {{ .root.Values.memoryMiB }}Mi
          {{- with .root.Values.devices }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
        limits:
          # There is a thread for each core of the limit; a node's other cores would only bring throttling.
          cpu: {{ .root.Values.cpu | quote }}
          memory: {{ .root.Values.memoryMiB }}Mi
          {{- with .root.Values.devices }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
      securityContext: {{- include "sluice.securityContext" . | nindent 8 }}
      # Loading a model takes a moment.
      startupProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 2
        failureThreshold: 90
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
      # It fails when a record was in flight for longer than "stall".
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 15
        timeoutSeconds: 5
        failureThreshold: 4
      volumeMounts:
        - {name: job, mountPath: /etc/sluice/job, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if .root.Values.model }}
        - name: model
          mountPath: /model
          readOnly: true
          {{- with .root.Values.model.path | default .root.Values.model.sha256 }}
          subPath: {{ . | quote }}
          {{- end }}
        {{- end }}
        {{- range .root.Values.secretMounts }}
        - {name: {{ printf "secret-%s" .secret }}, mountPath: {{ .mountPath }}, readOnly: true}
        {{- end }}
  volumes:
    - name: job
      configMap: {name: {{ include "sluice.name" .root }}}
    - name: tmp
      emptyDir: {}
    {{- with .root.Values.model }}
    - name: model
      {{- if .claim }}
      persistentVolumeClaim: {claimName: {{ .claim }}, readOnly: true}
      {{- else if .cache }}
      persistentVolumeClaim: {claimName: {{ .cache }}}
      {{- else if .image }}
      image: {reference: {{ .image | quote }}, pullPolicy: IfNotPresent}
      {{- else }}
      emptyDir: {}
      {{- end }}
    {{- end }}
    {{- range .root.Values.secretMounts }}
    - name: {{ printf "secret-%s" .secret }}
      secret: {secretName: {{ .secret }}, defaultMode: 0440}
    {{- end }}
{{- end -}}

{{- define "sluice.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
