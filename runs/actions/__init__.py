"""Requests of people: one keyword-only function per verb. Pages, API, admin and commands all come here.

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
from runs.actions.jobs import delete_job, delete_view, make_default_view, rename_view, save_job, save_view
from runs.actions.local import SpoolProcess, points_came, send_local_run
from runs.actions.nodes import (
    decide_leftovers,
    drain_node,
    enable_node,
    join_node,
    most_slots,
    remove_node,
    set_slots,
    undecided,
)
from runs.actions.notices import (
    EVERY,
    do_notice_rule,
    follow_run,
    get_notice_rule,
    notice_rules,
    read_notices,
    save_notice_rule,
    set_quiet_hours,
    visible_notices,
)
from runs.actions.people.groups import (
    create_group,
    custom_role_of,
    delete_custom_role,
    delete_group,
    give_cluster_role,
    give_group_role,
    group_named,
    save_custom_role,
    set_group_members,
    take_cluster_role,
    take_group_role,
    visible_groups,
)
from runs.actions.people.projects import (
    accept_invitation,
    add_git_key,
    change_role,
    create_project,
    delete_git_key,
    delete_secret,
    invite,
    remove_member,
    rotate_secrets_key,
    set_secret,
    withdraw_invitation,
)
from runs.actions.people.sign_in import Paused, first_start, make_sign_in_link, set_password, sign_in, use_sign_in_link
from runs.actions.people.ways_in import (
    close_service_account,
    create_service_account,
    create_token,
    live_tokens,
    revoke_token,
    revoke_tokens,
    tokens_of,
    void_handed_out,
)
from runs.actions.privacy import (
    agree,
    destroy_storage_keys,
    erase_person,
    get_export,
    known_regions,
    measure_storage,
    preview_retention,
    request_export,
    rotate_storage_key,
    set_encryption,
    set_quota,
    set_regions,
    set_retention,
    why_not_erased,
)
from runs.actions.queueing import LIMITS, set_limits, set_priority
from runs.actions.reports import archive_report, change_report, comment_report, create_report, delete_report
from runs.actions.runs import (
    archive_run,
    clone_run,
    continue_run,
    delete_run,
    give_up_run,
    move_run,
    note_run,
    note_step,
    pause_run,
    resize_run,
    restart_run,
    resume_run,
    stop_run,
    submit_run,
    tag_run,
    unarchive_run,
)
from runs.actions.sharing import revoke_share, share
from runs.actions.tracing import Trace, trace_run
from runs.values.refused import Refused
