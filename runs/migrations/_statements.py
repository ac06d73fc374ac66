"""What Django has no words for, as each database says it: an index of tags, and triggers that keep rows of the audit."""

from __future__ import annotations

REFUSAL = "rows of the audit are not changed"
SQLITE = [
    f"""CREATE TRIGGER audit_no_update BEFORE UPDATE ON runs_auditentry
        BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END""",
    f"""CREATE TRIGGER audit_no_delete BEFORE DELETE ON runs_auditentry
        WHEN OLD.sequence > (SELECT cut_sequence FROM runs_audithead WHERE id = 1)
        BEGIN SELECT RAISE(ABORT, '{REFUSAL}'); END""",
]
POSTGRESQL = [
    f"""CREATE FUNCTION audit_keep() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF TG_OP = 'DELETE' AND OLD.sequence <= (SELECT cut_sequence FROM runs_audithead WHERE id = 1) THEN
                RETURN OLD;
            END IF;
            RAISE EXCEPTION '{REFUSAL}';
        END $$""",
    """CREATE TRIGGER audit_keep BEFORE UPDATE OR DELETE ON runs_auditentry
        FOR EACH ROW EXECUTE FUNCTION audit_keep()""",
]
WITHOUT = {
    "sqlite": ["DROP TRIGGER IF EXISTS audit_no_update", "DROP TRIGGER IF EXISTS audit_no_delete"],
    "postgresql": ["DROP TRIGGER IF EXISTS audit_keep ON runs_auditentry", "DROP FUNCTION IF EXISTS audit_keep"],
}


def add_triggers(apps, schema_editor):
    for statement in {"sqlite": SQLITE, "postgresql": POSTGRESQL}.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)


def drop_triggers(apps, schema_editor):
    for statement in WITHOUT.get(schema_editor.connection.vendor, []):
        schema_editor.execute(statement)


def index_tags(apps, schema_editor):
    """SQLite has no such index: there tags are looked for in the text of the list's own."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute('CREATE INDEX "run_tags" ON "runs_run" USING gin ("tags" jsonb_path_ops)')


def forget_tags(apps, schema_editor):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute('DROP INDEX "run_tags"')
