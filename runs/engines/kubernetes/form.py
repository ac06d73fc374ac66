"""The fields of a Kubernetes cluster as a form shows them, in their order."""

from __future__ import annotations

from runs.engines.cluster_settings.fields import NUMBER, YAML, SettingField

FIELDS = (
    SettingField(
        "kubeconfig",
        "Kubeconfig",
        "Its path on this server; empty for the account of the pod that the server runs in.",
        heading="The API server",
    ),
    SettingField("context", "Context", "Of the kubeconfig; empty for its current one."),
    SettingField("namespace", "Namespace", "Where jobs, services and secrets are made.", is_needed=True),
    SettingField("server", "This server", "Its address as the pods reach it; empty for PUBLIC_URL."),
    SettingField(
        "image",
        "Image",
        "With Trainyard's extra node and PyTorch, such as trainyard:1.",
        is_needed=True,
        heading="Machines: one pod each",
    ),
    SettingField("python", "Python", "The interpreter in the image that has Trainyard.", is_needed=True),
    SettingField("machines", "Machines", "How many all runs may have at once.", NUMBER),
    SettingField("slots", "Ranks on a machine", "At most; a run may ask for fewer.", NUMBER),
    SettingField("cpus_per_slot", "Cores for a rank", "Requested; no limit is set.", NUMBER),
    SettingField("gpu_resource", "GPU resource", "Each rank gets one of it, such as nvidia.com/gpu; empty for CPUs."),
    SettingField("memory", "Memory of a machine", "Request and limit, such as 16Gi; empty for none."),
    SettingField(
        "claim",
        "Claim",
        "A PersistentVolumeClaim that many machines may write at once; checkpoints go there.",
        heading="Storage",
    ),
    SettingField("folder", "Shared folder", "Where the pods find that volume."),
    SettingField(
        "queue",
        "Kueue's queue",
        "A LocalQueue of the namespace that admits the jobs; empty without Kueue.",
        heading="Place and time",
    ),
    SettingField(
        "spread", "Spread over", "A label of machines, such as kubernetes.io/hostname: pods of a run differ in it."
    ),
    SettingField(
        "together", "Keep within", "A label of machines, such as topology.kubernetes.io/zone: pods of a run share it."
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
        "A partial PodSpec in YAML, laid over ours: tolerations, nodeSelector, volumes, imagePullSecrets and more. "
        "Environment, mounts and other resources stand below containers, in the one named node.",
        YAML,
        placeholder="tolerations:\n- key: nvidia.com/gpu\n  operator: Exists",
    ),
)
