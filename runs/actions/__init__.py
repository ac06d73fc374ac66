"""What a person may ask for: one keyword-only function per verb. Pages, API, admin and commands all come here.

Each checks the role, refuses with ``Refused`` what the state does not allow, changes rows in one short transaction,
and sends control a hint on commit.
"""

from runs.actions.bundles import store_bundle
from runs.actions.clusters import (
    check_cluster,
    check_run,
    cluster_of_this_machine,
    create_cluster,
    delete_cluster,
    edit_cluster,
    new_join_token,
)
from runs.actions.continuing import exclude_node, rewind_run
from runs.actions.datasets import answer_dataset, check_dataset, create_dataset, delete_dataset
from runs.actions.handed_out import void_handed_out
from runs.actions.jobs import delete_job, save_job
from runs.actions.leftovers import decide_leftovers, undecided
from runs.actions.local import Process, send_local_run
from runs.actions.nodes import drain_node, enable_node, join_node, most_slots, remove_node, set_slots
from runs.actions.projects import (
    accept_invitation,
    add_git_key,
    change_role,
    create_project,
    delete_git_key,
    invite,
    remove_member,
    withdraw_invitation,
)
from runs.actions.runs import (
    archive_run,
    clone_run,
    continue_run,
    delete_run,
    give_up_run,
    note_run,
    pause_run,
    resize_run,
    restart_run,
    resume_run,
    stop_run,
    submit_run,
    tag_run,
    unarchive_run,
)
from runs.actions.security.secrets import delete_secret, rotate_secrets_key, set_secret
from runs.actions.sign_in import (
    Paused,
    create_token,
    first_start,
    live_tokens,
    make_sign_in_link,
    revoke_token,
    revoke_tokens,
    set_password,
    sign_in,
    tokens_of,
    use_sign_in_link,
)
from runs.actions.tracing import Trace, trace_run
from runs.models.clusters import MAX_SLOTS
from runs.refused import Refused

__all__ = [
    "MAX_SLOTS",
    "Paused",
    "Process",
    "Refused",
    "Trace",
    "accept_invitation",
    "add_git_key",
    "answer_dataset",
    "archive_run",
    "change_role",
    "check_cluster",
    "check_dataset",
    "check_run",
    "clone_run",
    "cluster_of_this_machine",
    "continue_run",
    "create_cluster",
    "create_dataset",
    "create_project",
    "create_token",
    "decide_leftovers",
    "delete_cluster",
    "delete_dataset",
    "delete_git_key",
    "delete_job",
    "delete_run",
    "delete_secret",
    "drain_node",
    "edit_cluster",
    "enable_node",
    "exclude_node",
    "first_start",
    "give_up_run",
    "invite",
    "join_node",
    "live_tokens",
    "make_sign_in_link",
    "most_slots",
    "new_join_token",
    "note_run",
    "pause_run",
    "remove_member",
    "remove_node",
    "resize_run",
    "restart_run",
    "resume_run",
    "revoke_token",
    "revoke_tokens",
    "rewind_run",
    "rotate_secrets_key",
    "save_job",
    "send_local_run",
    "set_password",
    "set_secret",
    "set_slots",
    "sign_in",
    "stop_run",
    "store_bundle",
    "submit_run",
    "tag_run",
    "tokens_of",
    "trace_run",
    "unarchive_run",
    "undecided",
    "use_sign_in_link",
    "void_handed_out",
    "withdraw_invitation",
]
