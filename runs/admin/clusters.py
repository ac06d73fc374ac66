"""Clusters, with their settings as the form of the site has them."""

from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from runs.actions.clusters import changed_settings
from runs.admin.base import Editable
from runs.engines import ENGINES
from runs.models import Cluster, User


class ClusterForm(forms.ModelForm):  # type: ignore[type-arg]
    """Checks the settings as the form of the site and REST do."""

    actor: User  # whose request it is
    engine = forms.ChoiceField(choices=lambda: [(name, engine.label) for name, engine in sorted(ENGINES.items())])

    class Meta:
        model = Cluster
        fields = ("name", "engine", "settings", "region", "labels", "projects")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        labels = values.get("labels") or {}
        if not isinstance(labels, dict) or not all(isinstance(one, str) for one in labels.values()):
            self.add_error("labels", "An object of texts.")
        try:
            values["settings"] = changed_settings(
                actor=self.actor,
                # The form has put the new values into its instance by now.
                cluster=Cluster.objects.filter(pk=self.instance.pk).first() or Cluster(settings={}),
                engine=values.get("engine", "celery"),
                document=values.get("settings") or {},
            )
        except ValidationError as error:
            for field, words in error.message_dict.items():
                self.add_error("settings" if field.startswith("settings") else field, words)
        return values


@admin.register(Cluster)
class ClusterAdmin(Editable):
    list_display = ("name", "engine", "region", "created_at")
    search_fields = ("name",)
    filter_horizontal = ("projects",)
    list_filter = ("engine",)
    form = ClusterForm

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        form.actor = request.user
        return form
