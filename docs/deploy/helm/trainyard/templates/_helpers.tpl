{{- define "trainyard.labels" -}}
app.kubernetes.io/name: trainyard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "trainyard.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "trainyard.claim" -}}
{{ .Values.home.claim | default (printf "%s-home" .Release.Name) }}
{{- end }}

{{/* The pod of a process. Takes a list: root, words of the command, words of the probe (none: no probe), resources. */}}
{{- define "trainyard.pod" -}}
{{- $root := index . 0 }}
{{- $args := index . 1 }}
{{- $probe := index . 2 }}
{{- $resources := index . 3 -}}
serviceAccountName: {{ $root.Values.serviceAccount.name }}
automountServiceAccountToken: {{ $root.Values.serviceAccount.mountToken }}
enableServiceLinks: false
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
containers:
  - name: trainyard
    image: {{ include "trainyard.image" $root }}
    imagePullPolicy: {{ $root.Values.image.pullPolicy }}
    args: {{ toJson $args }}
    env:
      - name: TRAINYARD_HOME
        value: /var/lib/trainyard/home
      - name: DATABASE_URL_FILE
        value: /run/secrets/trainyard/DATABASE_URL
      - name: REDIS_URL_FILE
        value: /run/secrets/trainyard/REDIS_URL
      - name: SECRET_KEY_FILE
        value: /run/secrets/trainyard/SECRET_KEY
      - name: PUBLIC_URL
        value: {{ $root.Values.publicUrl | quote }}
      - name: FORWARDED_ALLOW_IPS
        value: {{ $root.Values.forwardedAllowIps | quote }}
      - name: INGEST_SHARDS
        value: {{ $root.Values.ingest.shards | quote }}
      - name: LOG_FORMAT
        value: json
      {{- if has "ingest" $args }}
      - name: SHARD
        valueFrom:
          fieldRef:
            fieldPath: metadata.labels['apps.kubernetes.io/pod-index']
      {{- end }}
      {{- range $name, $value := $root.Values.env }}
      - name: {{ $name }}
        value: {{ $value | quote }}
      {{- end }}
    securityContext:
      allowPrivilegeEscalation: false
      readOnlyRootFilesystem: true
      capabilities:
        drop: ["ALL"]
    resources: {{ toJson $resources }}
    {{- with $probe }}
    startupProbe:
      exec:
        command: {{ toJson . }}
      periodSeconds: 5
      timeoutSeconds: 10
      failureThreshold: 60
    livenessProbe:
      exec:
        command: {{ toJson . }}
      periodSeconds: 30
      timeoutSeconds: 10
      failureThreshold: 4
    {{- if eq (last $args) "web" }}
    readinessProbe:
      exec:
        command: {{ toJson . }}
      periodSeconds: 10
      timeoutSeconds: 10
    ports:
      - name: http
        containerPort: 8000
    {{- end }}
    {{- end }}
    volumeMounts:
      - name: home
        mountPath: /var/lib/trainyard
      - name: secrets
        mountPath: /run/secrets/trainyard
        readOnly: true
      - name: tmp
        mountPath: /tmp
volumes:
  - name: home
    persistentVolumeClaim:
      claimName: {{ include "trainyard.claim" $root }}
  - name: secrets
    secret:
      secretName: {{ $root.Values.secretName }}
      defaultMode: 0440
  - name: tmp
    emptyDir: {}
{{- end }}
