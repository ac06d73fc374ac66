"""Which path leads where: the API, the admin, and the pages."""

from django.contrib import admin
from django.urls import include, path

from runs.api import api

urlpatterns = [
    path("api/v1/", api.urls),
    path("admin/", admin.site.urls),
    path("", include("dashboard.pages.urls")),
]
