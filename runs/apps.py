from django.apps import AppConfig


class RunsConfig(AppConfig):
    name = "runs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from runs.rights.audit.changes import watch_rows  # these import the models, which are there only now
        from runs.rights.audit.recording import watch_sign_ins

        watch_rows()
        watch_sign_ins()
