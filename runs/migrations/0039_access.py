import django.core.validators
import django.db.models.deletion
from django.db import migrations, models

import runs.ids

ROLES = [
    ("owner", "Owner"),
    ("maintainer", "Maintainer"),
    ("member", "Member"),
    ("auditor", "Auditor"),
    ("viewer", "Viewer"),
]


class Migration(migrations.Migration):
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        ("runs", "0037_sweeps"),
    ]

    operations = [
        migrations.AddField(
            model_name="user",
            name="service_of",
            field=models.ForeignKey(
                blank=True,
                editable=False,
                null=True,
                on_delete=django.db.models.deletion.CASCADE,
                related_name="service_accounts",
                to="runs.project",
            ),
        ),
        migrations.AddField("token", "scopes", models.JSONField(blank=True, null=True)),
        migrations.AddField("token", "project_ids", models.JSONField(blank=True, null=True)),
        migrations.AddField(
            "token", "last_address", models.CharField(blank=True, default="", max_length=45), preserve_default=False
        ),
        migrations.AlterField("membership", "role", models.CharField(choices=ROLES, max_length=12)),
        migrations.AlterField("invitation", "role", models.CharField(choices=ROLES, default="member", max_length=12)),
        migrations.CreateModel(
            name="CustomRole",
            fields=[
                (
                    "id",
                    models.CharField(
                        default=runs.ids.new_id, editable=False, max_length=12, primary_key=True, serialize=False
                    ),
                ),
                (
                    "name",
                    models.CharField(max_length=40, validators=[django.core.validators.validate_slug]),
                ),
                ("permissions", models.JSONField(default=list)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "project",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="custom_roles", to="runs.project"
                    ),
                ),
            ],
            options={
                "ordering": ("name",),
                "constraints": [
                    models.UniqueConstraint(fields=("project", "name"), name="one_custom_role_per_name"),
                ],
            },
        ),
        migrations.AddField(
            model_name="membership",
            name="custom_role",
            field=models.ForeignKey(
                blank=True,
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="memberships",
                to="runs.customrole",
            ),
        ),
        migrations.CreateModel(
            name="GroupRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(choices=ROLES, max_length=12)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "custom_role",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="group_roles",
                        to="runs.customrole",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="project_roles", to="auth.group"
                    ),
                ),
                (
                    "project",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group_roles",
                        to="runs.project",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("group", "project"), name="one_role_per_group_and_project"),
                    models.UniqueConstraint(
                        condition=models.Q(("project", None)), fields=("group",), name="one_role_per_group_everywhere"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ClusterRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "role",
                    models.CharField(choices=[("runner", "Runner"), ("operator", "Operator")], max_length=12),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "cluster",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="group_roles",
                        to="runs.cluster",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="cluster_roles", to="auth.group"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("group", "cluster"), name="one_role_per_group_and_cluster"),
                    models.UniqueConstraint(
                        condition=models.Q(("cluster", None)),
                        fields=("group",),
                        name="one_role_per_group_on_all_clusters",
                    ),
                ],
            },
        ),
    ]
