"""The site's pages. ``route`` refuses a view that does not say who may open it."""

from collections.abc import Callable
from typing import Any

from django.urls import URLPattern, path

from dashboard.pages import audit, docs, jobs, node, server, usage
from dashboard.pages import palette as jump
from dashboard.pages.account import provider, security, sign_in
from dashboard.pages.account import views as account
from dashboard.pages.clusters import queue
from dashboard.pages.clusters import verbs as cluster_verbs
from dashboard.pages.clusters import views as clusters
from dashboard.pages.compare import views as compare
from dashboard.pages.datasets import form as dataset_form
from dashboard.pages.datasets import views as datasets
from dashboard.pages.home import views as home
from dashboard.pages.launch import views as launch
from dashboard.pages.people import data as project_data
from dashboard.pages.people import notices, rights, secrets
from dashboard.pages.people import views as people
from dashboard.pages.reports import views as reports
from dashboard.pages.run import apps, checkpoints
from dashboard.pages.run import verbs as page_verbs
from dashboard.pages.run import views as run
from dashboard.pages.runs import files as run_files
from dashboard.pages.runs import saved as run_views
from dashboard.pages.runs import verbs as run_verbs
from dashboard.pages.runs import views as runs_table
from dashboard.pages.sharing import views as sharing
from dashboard.pages.sweeps import verbs as sweep_verbs
from dashboard.pages.sweeps import views as sweeps


def route(pattern: str, view: Callable[..., Any], name: str) -> URLPattern:
    if not hasattr(view, "rules"):
        raise TypeError(f"the view of {pattern!r} must wear @page, which says who may open it")
    return path(pattern, view, name=name)


urlpatterns = [
    route("", home.home, "home"),
    route("mlflow/", home.mlflow_link, "mlflow-link"),
    route("launch-example/", home.launch_example, "launch-example"),
    route("docs/", docs.document, "docs"),
    route("docs/<path:name>", docs.document, "document"),
    route("jump/", jump.jump, "jump"),
    route("sign-in/", sign_in.sign_in, "sign-in"),
    route("sign-in/second/", sign_in.second_step, "second-factor-step"),
    route("sign-in/with/<slug:provider_id>/", provider.start, "sign-in-with"),
    route("sign-in/with/<slug:provider_id>/back/", provider.back, "openid_connect_callback"),  # allauth's name for it
    route("sign-in/with/<slug:provider_id>/logout/", provider.provider_logout, "provider-logout"),
    route("sign-in/with/<slug:provider_id>/assertion/", provider.assertion, "saml-assertion"),
    route("sign-in/with/<slug:provider_id>/metadata/", provider.metadata, "saml-metadata"),
    route("sign-in/<str:secret>/", sign_in.use_link, "use-link"),
    route("sign-out/", sign_in.sign_out, "sign-out"),
    route("launch/", launch.launch, "launch"),
    route("launch/preview/", launch.preview, "launch-preview"),
    route("launch/code/", launch.upload_code, "launch-code"),
    route("jobs/", jobs.table, "jobs"),
    route("jobs/<slug:job_id>/", jobs.job, "job"),
    route("jobs/<slug:job_id>/launch/", jobs.launch, "launch-job"),
    route("jobs/<slug:job_id>/delete/", jobs.delete, "delete-job"),
    route("sweeps/", sweeps.table, "sweeps"),
    route("sweeps/<slug:sweep_id>/", sweeps.sweep, "sweep"),
    route("sweeps/<slug:sweep_id>/data/", sweeps.data, "sweep-data"),
    route("sweeps/<slug:sweep_id>/importance/", sweeps.fields, "sweep-importance"),
    route("sweeps/<slug:sweep_id>/surface/", sweeps.surface, "sweep-surface"),
    route("sweeps/<slug:sweep_id>/trials/", sweep_verbs.add, "add-trial"),
    route("sweeps/<slug:sweep_id>/trials/<int:number>/", sweeps.trial, "trial"),
    route("sweeps/<slug:sweep_id>/trials/<int:number>/promote/", sweep_verbs.promote, "promote-trial"),
    route("sweeps/<slug:sweep_id>/trials/<int:number>/launch/", sweep_verbs.launch_trial, "launch-trial"),
    route("sweeps/<slug:sweep_id>/trials/<int:number>/replay/", sweep_verbs.replay, "replay-trial"),
    route("sweeps/<slug:sweep_id>/space/", sweep_verbs.widen, "widen-sweep"),
    route("sweeps/<slug:sweep_id>/best/", sweep_verbs.launch_best, "launch-best"),
    route("sweeps/<slug:sweep_id>/delete/", sweep_verbs.delete, "delete-sweep"),
    route("sweeps/<slug:sweep_id>/do/<slug:verb>/", sweep_verbs.do, "do-sweep"),
    route("share/", sharing.share, "share"),
    route("share/export/", sharing.export, "export"),
    route("share/<slug:share_id>/revoke/", sharing.revoke, "revoke-share"),
    route("shared/<slug:secret>/", sharing.shared, "shared"),
    route("data/", datasets.table, "datasets"),
    route("data/new/", dataset_form.add, "new-dataset"),
    route("data/<slug:dataset_id>/", datasets.dataset, "dataset"),
    route("data/<slug:dataset_id>/check/", datasets.check, "check-dataset"),
    route("data/<slug:dataset_id>/delete/", datasets.delete, "delete-dataset"),
    route("nodes/", clusters.clusters, "clusters"),
    route("nodes/clusters/new/", cluster_verbs.create, "new-cluster"),
    route("nodes/clusters/<slug:cluster_id>/edit/", cluster_verbs.edit, "edit-cluster"),
    route("nodes/clusters/<slug:cluster_id>/delete/", cluster_verbs.delete, "delete-cluster"),
    route("nodes/clusters/<slug:cluster_id>/add-node/", cluster_verbs.add_node, "add-node"),
    route("nodes/clusters/<slug:cluster_id>/check/", cluster_verbs.check, "check-cluster"),
    route("nodes/clusters/<slug:cluster_id>/queue/", queue.queue, "cluster-queue"),
    route("nodes/<slug:node_id>/", node.node, "node"),
    route("nodes/<slug:node_id>/slots/", node.slots, "node-slots"),
    route("nodes/<slug:node_id>/do/<slug:verb>/", node.do, "do-node"),
    route("people/", people.people, "people"),
    route("people/who-may-what/", rights.who_may_what, "who-may-what"),
    route("people/new-project/", people.new_project, "new-project"),
    route("people/sign-in/", rights.sign_in_settings, "sign-in-settings"),
    route("people/sign-in/scim-tokens/", rights.new_scim_token, "new-scim-token"),
    route("people/sign-in/scim-tokens/<slug:token_id>/revoke/", rights.revoke_scim_token, "revoke-scim-token"),
    route("people/persons/<int:person_id>/", account.of_person, "person"),
    route("people/persons/<int:person_id>/export/", account.export_of_person, "export-person"),
    route("people/persons/<int:person_id>/erase/", account.erase_person, "erase-person"),
    route("people/<slug:project_id>/notices/", notices.project_rules, "project-notices"),
    route("people/<slug:project_id>/data/", project_data.data, "project-data"),
    route("people/<slug:project_id>/data/retention/", project_data.retention, "set-retention"),
    route("people/<slug:project_id>/data/regions/", project_data.regions, "set-regions"),
    route("people/<slug:project_id>/data/encryption/", project_data.encryption, "set-encryption"),
    route("people/<slug:project_id>/data/measure/", project_data.measure, "measure-storage"),
    route("people/<slug:project_id>/data/quota/", project_data.quota, "set-quota"),
    route("people/<slug:project_id>/data/limits/", project_data.limits, "set-limits"),
    route("people/<slug:project_id>/second-factor/", rights.ask_second_factor, "ask-second-factor"),
    route("people/<slug:project_id>/invite/", people.invite, "invite"),
    route("people/<slug:project_id>/withdraw/<slug:invitation_id>/", people.withdraw, "withdraw"),
    route("people/<slug:project_id>/git-keys/", secrets.add_key, "add-git-key"),
    route("people/<slug:project_id>/git-keys/<slug:key_id>/delete/", secrets.delete_key, "delete-git-key"),
    route("people/<slug:project_id>/secrets/", secrets.put, "set-secret"),
    route("people/<slug:project_id>/secrets/<slug:name>/delete/", secrets.delete, "delete-secret"),
    route("people/<slug:project_id>/groups/", rights.give_group_role, "give-group-role"),
    route("people/<slug:project_id>/groups/<int:group_id>/take/", rights.take_group_role, "take-group-role"),
    route("people/<slug:project_id>/roles/", rights.save_role, "save-role"),
    route("people/<slug:project_id>/roles/<slug:name>/delete/", rights.delete_role, "delete-role"),
    route("people/<slug:project_id>/accounts/", rights.new_account, "new-account"),
    route("people/<slug:project_id>/accounts/<int:user_id>/token/", rights.account_token, "account-token"),
    route("people/<slug:project_id>/accounts/<int:user_id>/close/", rights.close_account, "close-account"),
    route("people/<slug:project_id>/role/<int:user_id>/", people.change_role, "change-role"),
    route("people/<slug:project_id>/remove/<int:user_id>/", people.remove, "remove-member"),
    route("invitations/<str:secret>/", sign_in.accept, "invitation"),
    route("audit/", audit.audit, "audit"),
    route("audit/verify/", audit.verify, "verify-audit"),
    route("usage/", usage.usage, "usage"),
    route("server/", server.server, "server"),
    route("compliance/", audit.compliance, "compliance"),
    route("account/", account.account, "account"),
    route("account/notices/", notices.own_rules, "own-notices"),
    route("account/notices/quiet-hours/", notices.quiet_hours, "quiet-hours"),
    route("notices/", notices.notices, "notices"),
    route("notices/rules/<slug:rule_id>/do/<slug:verb>/", notices.do_rule, "do-notice-rule"),
    route("account/data/", account.personal_data, "personal-data"),
    route("account/data/export/", account.export, "export-own-data"),
    route("account/data/erase/", account.erase, "erase-me"),
    route("account/consent/", account.agree, "consent"),
    route("account/secrets/", secrets.own_secrets, "own-secrets"),
    route("account/secrets/set/", secrets.put_own, "set-own-secret"),
    route("account/secrets/<slug:name>/delete/", secrets.delete_own, "delete-own-secret"),
    route("account/name/", account.rename, "set-name"),
    route("account/password/", account.password, "set-password"),
    route("account/security/", security.security, "security"),
    route("account/security/app/", security.set_up_app, "set-up-app"),
    route("account/security/key/", security.set_up_key, "set-up-key"),
    route("account/security/codes/", security.recovery_codes, "recovery-codes"),
    route("account/security/factors/<int:factor_id>/remove/", security.remove_factor, "remove-factor"),
    route("account/security/sessions/end-others/", security.end_others, "end-other-sessions"),
    route("account/security/sessions/<slug:session_id>/end/", security.end, "end-session"),
    route("account/security/providers/<slug:provider_id>/forget/", security.forget_provider, "forget-provider"),
    route("account/tokens/", account.new_token, "new-token"),
    route("account/tokens/revoke/", account.revoke_all, "revoke-tokens"),
    route("account/tokens/<slug:token_id>/revoke/", account.revoke, "revoke-token"),
    route("reports/", reports.table, "reports"),
    route("reports/new/", reports.new, "new-report"),
    route("reports/preview/", reports.preview, "report-preview"),
    route("reports/<slug:report_id>/", reports.report, "report"),
    route("reports/<slug:report_id>/edit/", reports.edit, "edit-report"),
    route("reports/<slug:report_id>/do/<slug:verb>/", reports.do, "do-report"),
    route("runs/", runs_table.table, "runs"),
    route("runs/do/<slug:verb>/", run_verbs.do_many, "do-many"),
    route("runs/csv/", run_files.export, "runs-csv"),
    route("runs/parquet/", run_files.parquet, "runs-parquet"),
    route("runs/views/", run_views.save_own, "save-own-view"),
    route("runs/views/shared/", run_views.save_shared, "save-shared-view"),
    route("runs/views/<slug:view_id>/", run_views.change, "change-view"),
    route("runs/views/<slug:view_id>/delete/", run_views.delete, "delete-view"),
    route("runs/compare/", compare.compare, "compare"),
    route("runs/compare/plots/", compare.plots, "compare-plots"),
    route("runs/compare/importance/", compare.matters, "compare-importance"),
    route("runs/<slug:run_id>/", run.charts, "run"),
    route("runs/<slug:run_id>/ranks/", run.ranks, "run-ranks"),
    route("runs/<slug:run_id>/system/", run.system, "run-system"),
    route("runs/<slug:run_id>/plan/", run.plan, "run-plan"),
    route("runs/<slug:run_id>/logs/", run.logs, "run-logs"),
    route("runs/<slug:run_id>/terminal/", apps.terminal, "run-terminal"),
    route("runs/<slug:run_id>/apps/", apps.apps, "run-apps"),
    route("runs/<slug:run_id>/media/", run.media, "run-media"),
    route("runs/<slug:run_id>/checkpoints/", checkpoints.checkpoints, "run-checkpoints"),
    route("runs/<slug:run_id>/files/", run.files, "run-files"),
    route("runs/<slug:run_id>/spec/", run.spec, "run-spec"),
    route("runs/<slug:run_id>/timeline/", run.timeline, "run-timeline"),
    route("runs/<slug:run_id>/note/", page_verbs.note, "run-note"),
    route("runs/<slug:run_id>/rewind/", page_verbs.rewind, "rewind"),
    route("runs/<slug:run_id>/exclude-node/", page_verbs.exclude_node, "exclude-node"),
    route("runs/<slug:run_id>/trace/", page_verbs.trace, "trace"),
    route("runs/<slug:run_id>/resize/", page_verbs.resize, "resize"),
    route("runs/<slug:run_id>/scale/", page_verbs.scale, "scale"),
    route("runs/<slug:run_id>/priority/", queue.prioritize, "run-priority"),
    route("runs/<slug:run_id>/annotate/", run_verbs.annotate, "annotate"),
    route("runs/<slug:run_id>/do/<slug:verb>/", run_verbs.do, "do"),
]
