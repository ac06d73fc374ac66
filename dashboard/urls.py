"""Routes of the site: the API, the admin, and the pages."""

from django.contrib import admin
from django.urls import include, path

from dashboard.pages.account import sign_in
from dashboard.pages.account import views as account
from runs.api import api
from runs.api.mlflow import mlflow
from runs.people.scim.views import scim

# Errors, for a path without a route or raised by a view, look like every other page.
handler404 = "dashboard.pages.errors.not_found"
handler403 = "dashboard.pages.errors.forbidden"
handler500 = "dashboard.pages.errors.failed"

urlpatterns = [
    path("api/v1/", api.urls),
    path("mlflow/api/2.0/", mlflow.urls),
    path("scim/v2/<path:rest>", scim),
    path("admin/login/", sign_in.admin_sign_in),
    path("admin/password_change/", account.from_admin),
    path("admin/", admin.site.urls),
    path("", include("dashboard.pages.urls")),
]
