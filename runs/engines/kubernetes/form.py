"""The fields of a Kubernetes cluster as a form shows them, in their order."""

from __future__ import annotations

from runs.engines.cluster_settings.fields import NUMBER, YAML, SettingField

FIELDS = (
    SettingField("image", "Image", "With Trainyard's extra node and PyTorch, such as trainyard:1.", is_needed=True),
    SettingField("namespace", "Namespace", "Where jobs, services and secrets are made.", is_needed=True),
    SettingField(
        "kubeconfig", "Kubeconfig", "Its path on this server; empty for the account of the pod that the server is in."
    ),
    SettingField("context", "Context", "Of the kubeconfig; empty for its current one."),
    SettingField("machines", "Machines", "How many all runs may have at once. Each is one pod.", NUMBER),
    SettingField("slots", "Ranks on a machine", "At most; a run may ask for fewer.", NUMBER),
    SettingField("cpus_per_slot", "Cores for a rank", "Requested, and not a limit.", NUMBER),
    SettingField(
        "gpu_resource", "GPU resource", "Of which each rank gets one, such as nvidia.com/gpu; empty for CPUs."
    ),
    SettingField("memory", "Memory of a machine", "Request and limit, such as 16Gi; empty for none."),
    SettingField("folder", "Shared folder", "Where the pods find the volume that they share; checkpoints go there."),
    SettingField(
        "claim", "Claim", "A PersistentVolumeClaim that many machines may write at once, mounted at the shared folder."
    ),
    SettingField(
        "queue", "Kueue queue", "A LocalQueue of the namespace, which then admits the jobs; empty without Kueue."
    ),
    SettingField(
        "spread",
        "Spread over",
        "A label of machines, such as kubernetes.io/hostname: the pods of a run take different ones.",
    ),
    SettingField(
        "together",
        "Keep within",
        "A label of machines, such as topology.kubernetes.io/zone: the pods of a run share one.",
    ),
    SettingField(
        "time_limit",
        "Time limit of a job",
        "Such as 4h. A run that needs longer saves a checkpoint, ends, and goes on in another job.",
    ),
    SettingField("notice", "Notice", "How long ranks may save before their pod is killed, such as 2m.", is_needed=True),
    SettingField(
        "pod",
        "Pod template",
        "A partial PodSpec in YAML: tolerations, nodeSelector, volumes, imagePullSecrets and others. Resources, env and "
        "volumeMounts of the container stand below containers, under the name node.",
        YAML,
        placeholder="tolerations:\n- key: nvidia.com/gpu\n  operator: Exists",
    ),
    SettingField("python", "Python", "The interpreter in the image that has Trainyard.", is_needed=True),
    SettingField("server", "This server", "Its address as the pods reach it; empty for PUBLIC_URL."),
)
